"""`torch.autograd.forward_ad`: numbers with a tangent beside them.

A dual tensor is an ordinary one with history; its tangent is asked for at the end (`unpack_dual`):
J t is the gradient of (v -> v^T J) at t, so it costs two reverse passes over the recorded calls, of
which the compiler keeps what depends on t. Dual tensors need calls to be recorded: inside
`no_grad` a result has no tangent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight as torch
from rushlight import names as _names
from rushlight.autograd import engine
from rushlight.autograd.mode import STATE
from rushlight.autograd.protocol import TENSORS

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip
NO_LEVEL = (
    "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
    "enter_dual_level() first."
)


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent; None: no tangent."""

    primal: Any
    tangent: Any


class _Levels:
    """The open level: its number (-1: none) and its dual tensors with their tangents."""

    current = -1
    duals: list[tuple[Any, Any]] = []


def enter_dual_level() -> int:
    """Open a level; gives its number. There is one at a time, as in PyTorch."""
    if _Levels.current >= 0:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. If you would like to use it, "
            "nest torch.func.jvp"
        )
    _Levels.current, _Levels.duals = 0, []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its tensors have no tangents any more."""
    if _Levels.current < 0 or level not in (None, _Levels.current):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    _Levels.current, _Levels.duals = -1, []


class dual_level:  # noqa: N801
    """A level that is closed at the end of the block.

    >>> import rushlight as torch
    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     print(fwAD.unpack_dual(x**3).tangent)
    tensor(12.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor with this tangent, which has its shape and dtype."""
    if _Levels.current < 0:
        raise RuntimeError(NO_LEVEL)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(
            f"Expected primal to be floating point or complex, but got: {tensor.dtype}"
        )
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"Expected tangent to have the size {list(tensor.shape)} of the primal, but got "
            f"{list(tangent.shape)}"
        )
    with torch.enable_grad():
        made = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    _Levels.duals.append((TENSORS.edge(made), tangent))
    return made


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """(the tensor without its tangent, the tangent or None)."""
    if _Levels.current < 0:
        return UnpackedDualTensor(tensor, None)
    tangent = _tangent(tensor)
    return UnpackedDualTensor(tensor.detach() if tangent is not None else tensor, tangent)


def _reverse(roots: list[Any], vectors: list[Any], edges: list[Any]) -> list[Any]:
    return engine.run(
        roots, vectors, retain=True, create_graph=True, capture=edges, accumulate=False
    )


def _tangent(tensor: Any) -> Any:
    edge = TENSORS.edge(tensor) if isinstance(tensor, torch.Tensor) else None
    if edge is None or not _Levels.duals:
        return None
    edges = [made for made, _ in _Levels.duals]
    with torch.enable_grad():
        vector = torch.zeros(tensor.shape, dtype=tensor.dtype).requires_grad_()
        pulled = _reverse([edge], [vector], edges)
        pairs = [(g, t) for g, (_, t) in zip(pulled, _Levels.duals, strict=True)
                 if g is not None]  # fmt: skip
        if not pairs:
            return None
        wanted = [(g, t) for g, t in pairs if TENSORS.edge(g) is not None]
        if not wanted:
            return torch.zeros_like(tensor.detach())
        found = _reverse([TENSORS.edge(g) for g, _ in wanted], [t for _, t in wanted],
                         [TENSORS.edge(vector)])  # fmt: skip
    result = found[0]
    if result is None:
        return torch.zeros_like(tensor.detach())
    return result if STATE.grad and any(t.requires_grad for _, t in wanted) else result.detach()
