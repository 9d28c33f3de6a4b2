"""torch.utils.checkpoint: keep no intermediate values, compute them again in backward.

use_reentrant=True   the call is one autograd.Function whose backward runs the function again
use_reentrant=False  the call is recorded as usual, but what it saves is dropped; the first value
                     that backward asks for makes the function run again and keep what it saves
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.utils.checkpoint_policy import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__getattr__ = _names.getattr_of(__name__)


Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> Contexts:
    """Contexts of the first run and of the second that change nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def _rng(state: Any) -> Iterator[None]:
    """Run with a random state, then put the present one back."""
    if state is None:
        yield
        return
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The GPUs on which the arguments are, with their random states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Put back the random states of GPUs: there are none."""


class _Conditions:
    """What a second run must find as the first one did: random numbers and autocast."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng = torch.get_rng_state() if preserve_rng_state else None
        is_on = torch.is_autocast_enabled("cpu")
        self.fast_dtype = torch.get_autocast_dtype("cpu") if is_on else None

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Inside they are as they were; after that, as before."""
        is_on = self.fast_dtype is not None
        with _rng(self.rng), torch.autocast("cpu", dtype=self.fast_dtype, enabled=is_on):
            yield


class CheckpointFunction(torch.autograd.Function):
    """The reentrant form."""

    @staticmethod
    def forward(ctx: Any, run: Callable, preserve: bool, *args: Any) -> Any:
        ctx.run, ctx.args = run, args
        ctx.conditions = _Conditions(preserve)
        ctx.save_for_backward(*[a for a in args if isinstance(a, torch.Tensor)])
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        args = []
        for arg in ctx.args:
            if isinstance(arg, torch.Tensor):
                fresh = next(saved).detach()
                fresh.requires_grad = arg.requires_grad
                args.append(fresh)
            else:
                args.append(arg)
        with torch.enable_grad(), ctx.conditions.again():
            outputs = ctx.run(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True)
                 if isinstance(o, torch.Tensor) and o.requires_grad]  # fmt: skip
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[a.grad if isinstance(a, torch.Tensor) else None for a in args])


def _metadata(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


# Name of a determinism check -> what of each saved tensor must be as before.
CHECKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "default": _metadata,
    "none": lambda tensor: None,
}


class _Frame:
    """One non-reentrant call: its saved values by number, computed again on demand."""

    def __init__(
        self,
        run: Callable[[], Any],
        conditions: _Conditions,
        context: AbstractContextManager[Any],
        check: Callable[[torch.Tensor], Any],
    ) -> None:
        self.run, self.conditions, self.context, self.check = run, conditions, context, check
        self.seen: list[Any] = []
        self.values: list[Any] | None = None
        self.used = 0

    def pack(self, tensor: torch.Tensor) -> int:
        self.seen.append(self.check(tensor))
        return len(self.seen) - 1

    def unpack(self, number: int) -> Any:
        if self.values is None:
            self._recompute()
        value = self.values[number]  # type: ignore[index]
        self.used += 1
        if self.used == len(self.seen):  # all read: the next backward computes again
            self.values, self.used = None, 0
        return value

    def _recompute(self) -> None:
        kept: list[Any] = []

        def keep(tensor: torch.Tensor) -> int:
            kept.append(tensor)
            return len(kept) - 1

        with (
            torch.enable_grad(),
            self.conditions.again(),
            self.context,
            torch.autograd.graph.saved_tensors_hooks(keep, kept.__getitem__),
        ):
            self.run()
        if len(kept) != len(self.seen):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.seen)}\n"
                f"Number of tensors saved during recomputation: {len(kept)}."
            )
        self._compare(kept)
        self.values = kept

    def _compare(self, kept: list[Any]) -> None:
        pairs = enumerate(zip(self.seen, map(self.check, kept), strict=True))
        differing = [
            f"tensor at position {i}:\nsaved metadata: {was}\nrecomputed metadata: {now}\n"
            for i, (was, now) in pairs
            if was != now
        ]
        if differing:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n{''.join(differing)}"
            )


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did something else than the first."""


def checkpoint(
    function: Callable, *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn, determinism_check: str = "default",
    debug: bool = False, preserve_rng_state: bool = True, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """function(*args, **kwargs), whose intermediate values are computed again in backward.

    The second run finds the random state (`preserve_rng_state`) and the autocast mode of the first.
    Without `use_reentrant`: `context_fn()` gives a context for the first run and one for the
    second; `determinism_check` "default" compares shapes and dtypes of what both save ("none" does
    not). `debug` and `early_stop` change nothing: no log of ops is kept, and the second run is
    recorded whole, of which only what is needed is computed.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([2.7183, 2.7183])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(CHECKS)}, but got {determinism_check}"
        )
    first, second = context_fn()
    conditions = _Conditions(preserve_rng_state)
    frame = _Frame(lambda: function(*args, **kwargs), conditions, second, CHECKS[determinism_check])
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a list of functions in `segments` checkpointed pieces."""
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def piece(low: int, high: int) -> Callable:
        def run(value: Any) -> Any:
            for step in steps[low:high]:
                value = step(value)
            return value

        return run

    for i in range(segments - 1):
        input = checkpoint(piece(i * size, (i + 1) * size), input,
                           use_reentrant=bool(use_reentrant), **kwargs)  # fmt: skip
    return piece((segments - 1) * size, len(steps))(input)


__all__ = [
    "checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction",
    "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts",
    "get_device_states", "noop_context_fn", "set_device_states",
]  # fmt: skip
