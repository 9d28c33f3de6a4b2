"""The class of sparse tensors: plain tensors of indices and values, and what to ask of them.

A sparse tensor is no memory of elements: each public function given one is answered by `OPS` (see
`answers.py`) or refused by name. Its values are an ordinary tensor, so gradients flow through them.

Layouts: "coo" has indices (sparse dimensions, count) and values (count, dense dimensions ...);
"csr" and "csc" are matrices with one pointer per row (column) and one index per value; "bsr" and
"bsc" the same of small dense blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.overrides.dispatch import turn_on
from rushlight.overrides.mode import DisableTorchFunctionSubclass

LAYOUTS = {
    "coo": torch.sparse_coo, "csr": torch.sparse_csr, "csc": torch.sparse_csc,
    "bsr": torch.sparse_bsr, "bsc": torch.sparse_bsc,
}  # fmt: skip
OPS: dict[str, Callable[..., Any]] = {}


class Versions:
    """Counts in-place changes of one sparse tensor."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


class SparseTensor(torch.Tensor):
    """A sparse tensor. `kind`: a key of LAYOUTS; `index`: (indices,) or (pointers, indices);
    `vals`: the values."""

    kind: str
    index: tuple[Any, ...]
    vals: Any
    sorted_once: bool  # coo: each index once, in order

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        name = getattr(func, "__name__", str(func))
        answer = OPS.get(name)
        if answer is None:
            raise NotImplementedError(
                f"{name} is not implemented for sparse tensors: convert it first, with "
                ".to_dense(), or use torch.sparse"
            )
        with DisableTorchFunctionSubclass():
            return answer(*args, **(kwargs or {}))

    def _value(self) -> Any:
        raise NotImplementedError(
            "a sparse tensor has no strided memory: use .to_dense() first. (A function that was "
            "taken from torch before the first sparse tensor was made knows dense ones only: call "
            "it as torch.NAME.)"
        )

    # What it is -----------------------------------------------------------------------------

    @property
    def layout(self) -> Any:
        return LAYOUTS[self.kind]

    @property
    def device(self) -> Any:  # type: ignore[override]
        return self.vals.device

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.kind == "coo"

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.kind == "csr"

    def sparse_dim(self) -> int:
        return self.index[0].shape[0] if self.kind == "coo" else 2

    def dense_dim(self) -> int:
        return self.vals.dim() - (3 if self.kind in ("bsr", "bsc") else 1)

    def _nnz(self) -> int:
        return self.vals.shape[0]

    def is_coalesced(self) -> bool:
        self._expect("is_coalesced", "sparse coordinate", "coo")
        return self.sorted_once

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return True

    def stride(self, dim: int | None = None) -> Any:
        raise RuntimeError("Sparse tensors do not have strides")

    @property
    def T(self) -> Any:  # noqa: N802
        """The dimensions in reverse order."""
        return OPS["permute"](self, list(range(self.dim()))[::-1])

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two dimensions exchanged."""
        return OPS["transpose"](self, -2, -1)

    @property
    def data(self) -> Any:
        """The same tensor without its history."""
        return self.like(self.vals.detach())

    @data.setter
    def data(self, value: Any) -> None:
        OPS["copy_"](self, value)

    # Gradients, which are those of the values -----------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self.vals.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.vals.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self.vals.requires_grad_(requires_grad)
        return self

    @property
    def grad_fn(self) -> Any:
        return self.vals.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self.vals.is_leaf

    @property
    def grad(self) -> Any:
        """Of each element: places that come twice have one gradient."""
        if self.vals.grad is None:
            return None
        found = self.like(self.vals.grad)
        if self.kind != "coo" or self.sorted_once:
            return found
        coalesce = OPS["coalesce"]
        total, count = coalesce(found), coalesce(self.like(torch.ones_like(self.vals.grad)))
        return total.like(total.vals / count.vals)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.vals.grad = None if value is None else value.vals

    # Parts ----------------------------------------------------------------------------------

    def _expect(self, name: str, words: str, *kinds: str) -> None:
        if self.kind not in kinds:
            raise RuntimeError(
                f"{name} expected {words} tensor layout but got Sparse{_word(self.kind)}"
            )

    def _indices(self) -> Any:
        self._expect("_indices", "sparse coordinate", "coo")
        return self.index[0]

    def _values(self) -> Any:
        return self.vals

    def indices(self) -> Any:
        self._expect("indices", "sparse coordinate", "coo")
        self._expect_coalesced("indices")
        return self.index[0]

    def values(self) -> Any:
        if self.kind == "coo":
            self._expect_coalesced("values")
        return self.vals

    def _expect_coalesced(self, name: str) -> None:
        if not self.sorted_once:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def crow_indices(self) -> Any:
        self._expect("crow_indices", "sparse row compressed", "csr", "bsr")
        return self.index[0]

    def col_indices(self) -> Any:
        self._expect("col_indices", "sparse row compressed", "csr", "bsr")
        return self.index[1]

    def ccol_indices(self) -> Any:
        self._expect("ccol_indices", "sparse column compressed", "csc", "bsc")
        return self.index[0]

    def row_indices(self) -> Any:
        self._expect("row_indices", "sparse column compressed", "csc", "bsc")
        return self.index[1]

    def like(self, values: Any) -> SparseTensor:
        """The same pattern with other values."""
        return make(self.kind, self.index, values, self._shape, self.sorted_once)


def _word(kind: str) -> str:
    return "" if kind == "coo" else kind.capitalize()


def make(
    kind: str, index: tuple[Any, ...], values: Any, size: Any, sorted_once: bool = False
) -> SparseTensor:
    """A sparse tensor of these parts, unchecked. It is where its values are."""
    turn_on()
    index = tuple(part.to(values.device) for part in index)
    made = object.__new__(SparseTensor)
    # A counter of its own: who takes a tensor apart by its storage sees that this is none.
    made._storage, made._counter = values._storage, Versions()
    made._shape, made._dtype = tuple(size), values._dtype
    # Not None, so that an op asks for `_value` instead of taking what the storage holds.
    made._view = torch.empty(made._shape).expand(made._shape).detach()._view
    made._node = made._seen = made._grad = None
    made.kind, made.index, made.vals, made.sorted_once = kind, index, values, sorted_once
    return made
