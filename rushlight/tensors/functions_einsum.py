"""einsum: sums of products by letters, as batched matrix products of two operands at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.tensors.apply import apply
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_slices import diagonal
from rushlight.tensors.functions_view import permute, reshape
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products by letters, two operands at a time from the left."""
    tensors = (
        list(operands[0])
        if len(operands) == 1 and not isinstance(operands[0], Tensor)
        else list(operands)
    )
    inputs, output = _parse(equation, tensors)
    names, result = inputs[0], tensors[0]
    names, result = _diagonals(names, result)
    for i, (other_names, other) in enumerate(zip(inputs[1:], tensors[1:], strict=True)):
        other_names, other = _diagonals(other_names, other)
        later = set("".join(inputs[i + 2 :])) | set(output)
        names, result = _contract(names, result, other_names, other, later)
    drop = [i for i, n in enumerate(names) if n not in output]
    if drop:
        result = result.sum(drop)
        names = "".join(n for n in names if n in output)
    return permute(result, [names.index(n) for n in output]) if names != output else result


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        fewer = "more" if len(tensors) > len(inputs) else "fewer"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided than specified in the equation"
        )
    widest = 0
    for names, tensor in zip(inputs, tensors, strict=True):
        if "..." in names:
            widest = max(widest, tensor.dim() - len(names.replace("...", "")))
        elif len(names) != tensor.dim():
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(names)}) does not match "
                f"the number of dimensions ({tensor.dim()}) for operand "
                f"{list(inputs).index(names)} and no ellipsis was given"
            )
    dots = "".join(chr(0x2460 + i) for i in range(widest))
    full = []
    for names, tensor in zip(inputs, tensors, strict=True):
        own = tensor.dim() - len(names.replace("...", ""))
        full.append(names.replace("...", dots[widest - own :] if own else ""))
    if not arrow:
        letters = sorted(set("".join(full)) - set(dots))
        output = dots + "".join(n for n in letters if "".join(full).count(n) == 1)
    else:
        output = output.replace("...", dots)
    for name in output:
        if not any(name in names for names in full):
            raise RuntimeError(
                f"einsum(): output subscript {name} does not appear in the equation for any input "
                "operand"
            )
    return full, output


def _diagonals(names: str, tensor: Tensor) -> tuple[str, Tensor]:
    """A letter that stands twice in one operand: its diagonal."""
    for name in names:
        while names.count(name) > 1:
            a = names.index(name)
            b = names.index(name, a + 1)
            tensor = diagonal(tensor, 0, a, b)
            names = names[:a] + names[a + 1 : b] + names[b + 1 :] + name
    return names, tensor


def _contract(na: str, a: Tensor, nb: str, b: Tensor, later: set[str]) -> tuple[str, Tensor]:
    """One product of two operands as a batched matrix product."""
    a, na = _sum_lonely(a, na, nb, later)
    b, nb = _sum_lonely(b, nb, na, later)
    batch = [n for n in na if n in nb and n in later]
    shared = [n for n in na if n in nb and n not in later]
    rows = [n for n in na if n not in nb]
    columns = [n for n in nb if n not in na]
    size = {}
    for names, tensor in ((na, a), (nb, b)):
        for n, s in zip(names, tensor._shape, strict=True):
            if size.get(n, 1) not in (1, s) and s != 1:
                raise RuntimeError(
                    f"einsum(): subscript {n} has size {s} for operand 1 which does not broadcast "
                    f"with previously seen size {size[n]}"
                )
            size[n] = max(s, size.get(n, 1)) if s else 0
    names = "".join(batch + rows + columns)
    if not shared:  # nothing is summed: no product, which autocast would lower
        return names, _times(_lined(a, na, batch + rows, size), b, nb, batch + columns, len(batch))
    a = _lined(a, na, batch + rows + shared, size)
    b = _lined(b, nb, batch + shared + columns, size)

    def volume(letters: list[str]) -> int:
        return math.prod(size[n] for n in letters)

    left = reshape(a, (volume(batch), volume(rows), volume(shared)))
    right = reshape(b, (volume(batch), volume(shared), volume(columns)))
    return names, reshape(matmul(left, right), [size[n] for n in names])


def _times(a: Tensor, b: Tensor, names: str, order: list[str], batch: int) -> Tensor:
    """Each row of `a` (batch, rows) by each column of `b`, whose letters get this order."""
    b = permute(b, [names.index(n) for n in order])
    b = reshape(b, (*b._shape[:batch], *(1,) * (a.dim() - batch), *b._shape[batch:]))
    a = reshape(a, (*a._shape, *(1,) * (len(order) - batch)))
    return apply(ops.mul, (a, b))


def _sum_lonely(tensor: Tensor, names: str, other: str, later: set[str]) -> tuple[Tensor, str]:
    drop = [i for i, n in enumerate(names) if n not in other and n not in later]
    if drop:
        tensor = tensor.sum(drop)
    return tensor, "".join(n for i, n in enumerate(names) if i not in drop)


def _lined(tensor: Tensor, names: str, order: list[str], size: dict[str, int]) -> Tensor:
    moved = permute(tensor, [names.index(n) for n in order])
    shape = tuple(size[n] for n in order)
    return moved.expand(shape) if moved._shape != shape else moved


FUNCTIONS: dict[str, Callable] = by_name(einsum)
METHODS: dict[str, Callable] = {}
