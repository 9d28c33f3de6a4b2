"""torch.utils.checkpoint: keep no intermediate values, compute them again in backward.

use_reentrant=True   the call is one autograd.Function whose backward runs the function again
use_reentrant=False  the call is recorded as usual, but what it saves is dropped; the first value
                     that backward asks for makes the function run again and keep what it saves
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)


@contextlib.contextmanager
def _rng(state: Any) -> Any:
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


class CheckpointFunction(torch.autograd.Function):
    """The reentrant form."""

    @staticmethod
    def forward(ctx: Any, run: Callable, preserve: bool, *args: Any) -> Any:
        ctx.run, ctx.args = run, args
        ctx.state = torch.get_rng_state() if preserve else None
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
        with torch.enable_grad(), _rng(ctx.state):
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


class _Frame:
    """One non-reentrant call: its saved values by number, computed again on demand."""

    def __init__(self, run: Callable[[], Any], state: Any) -> None:
        self.run, self.state = run, state
        self.count = 0
        self.values: list[Any] | None = None
        self.used = 0

    def pack(self, tensor: torch.Tensor) -> int:
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Any:
        if self.values is None:
            self._recompute()
        value = self.values[number]  # type: ignore[index]
        self.used += 1
        if self.used == self.count:  # all read: the next backward computes again
            self.values, self.used = None, 0
        return value

    def _recompute(self) -> None:
        kept: list[Any] = []

        def keep(tensor: torch.Tensor) -> int:
            kept.append(tensor)
            return len(kept) - 1

        with (
            torch.enable_grad(),
            _rng(self.state),
            torch.autograd.graph.saved_tensors_hooks(keep, kept.__getitem__),
        ):
            self.run()
        if len(kept) != self.count:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {self.count}\n"
                f"Number of tensors saved during recomputation: {len(kept)}."
            )
        self.values = kept


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did something else than the first."""


def checkpoint(
    function: Callable, *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable | None = None, determinism_check: str = "default", debug: bool = False,
    preserve_rng_state: bool = True, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """function(*args, **kwargs), whose intermediate values are computed again in backward."""
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
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    state = torch.get_rng_state() if preserve_rng_state else None
    frame = _Frame(lambda: function(*args, **kwargs), state)
    with torch.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack):
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


__all__ = ["CheckpointError", "CheckpointFunction", "checkpoint", "checkpoint_sequential"]
