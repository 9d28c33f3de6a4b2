"""Names of torch.autograd.graph that are about hooks: on saved values, and on several gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rushlight.autograd.mode import STATE, saved_tensors_hooks


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Inside, saved values wait in the memory of the CPU, where they are anyway."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda value: value, lambda value: value)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` raises RuntimeError with this message."""
    before = STATE.no_pack_hooks
    STATE.no_pack_hooks = error_message
    try:
        yield
    finally:
        STATE.no_pack_hooks = before


def increment_version(tensor: Any) -> None:
    """Say that the values of a tensor, or of several, were changed in place."""
    for one in tensor if isinstance(tensor, Sequence) else (tensor,):
        one._counter.version += 1


class _Handle:
    """Takes several hooks away at once."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> _Handle:
    """Call `fn` when the gradients of these tensors are there: of all of them (`fn(list)`), or of
    the first one (`fn(gradient)`). Once in each backward."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    found: list[Any] = [None] * len(tensors)
    seen = [0]

    def hook_of(position: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            found[position] = grad
            seen[0] += 1
            if mode == "any" and seen[0] == 1:
                fn(grad)
            if seen[0] == len(tensors):
                grads = found[:]
                found[:] = [None] * len(tensors)
                seen[0] = 0
                if mode == "all":
                    fn(grads)

        return hook

    return _Handle([tensor.register_hook(hook_of(i)) for i, tensor in enumerate(tensors)])
