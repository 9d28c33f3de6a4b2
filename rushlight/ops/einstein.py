"""einsum: a function that builds a graph, not a record.

Operands are joined from left to right; each pair becomes one `dot` over the letters that are
summed, batched over the letters that both have and that stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.ir.symint_math import product
from rushlight.ops.binary import mul
from rushlight.ops.diagonals import diagonal
from rushlight.ops.indexed import dot
from rushlight.ops.movement import expand, permute, reshape
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import broadcast_shapes, is_static

# A letter is one character of a subscript; the dims of an ellipsis are numbers from the right.
Letter = str | int


def einsum(equation: str, *operands: Any) -> Any:
    """The sum of products that the equation describes (PyTorch's rules, sublists left out)."""
    terms, output = parse(equation, [len(x.shape) for x in operands])
    sizes: dict[Letter, Any] = {}
    values: list[tuple[Any, list[Letter]]] = []
    for term, x in zip(terms, operands, strict=True):
        x, letters = _diagonals(x, list(term))
        for letter, size in zip(letters, x.shape, strict=True):
            _meet(sizes, letter, size)
        values.append((x, letters))
    result, letters = values[0]
    for position in range(1, len(values)):
        later = {letter for _, rest in values[position + 1 :] for letter in rest}
        result, letters = _join(result, letters, *values[position], later | set(output))
    result, letters = _sum_out(result, letters, set(output))
    result = _arrange(result, letters, output)
    shape = tuple(sizes[letter] for letter in output)
    return expand(result, shape) if result.shape != shape else result


def parse(equation: str, ndims: Sequence[int]) -> tuple[list[list[Letter]], list[Letter]]:
    """The letters of each operand and of the output."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ndims):
        more = "more operands were provided than specified in the equation"
        fewer = "fewer operands were provided than specified in the equation"
        raise RuntimeError(f"einsum(): {fewer if len(texts) > len(ndims) else more}")
    terms = [
        _letters(text, ndim, i) for i, (text, ndim) in enumerate(zip(texts, ndims, strict=True))
    ]
    hidden = max((sum(isinstance(x, int) for x in term) for term in terms), default=0)
    dots: list[Letter] = list(range(-hidden, 0))
    if not arrow:
        flat = [x for term in terms for x in term if isinstance(x, str)]
        once = sorted(x for x in set(flat) if flat.count(x) == 1)
        return terms, [*dots, *once]
    output: list[Letter] = []
    for part in right.replace("...", "."):
        output.extend(dots if part == "." else [part])
    for letter in output:
        if output.count(letter) > 1:
            raise RuntimeError(f"einsum(): output subscript {letter} appears more than once")
        if isinstance(letter, str) and not any(letter in term for term in terms):
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any "
                "input operand"
            )
    return terms, output


def _letters(text: str, ndim: int, position: int) -> list[Letter]:
    parts = text.replace("...", ".")
    named = len(parts.replace(".", ""))
    if not parts.replace(".", "").isalpha() and named:
        raise RuntimeError(
            f"einsum(): invalid subscript given in the equation, subscripts must be in [a-zA-Z]: "
            f"{text!r}"
        )
    hidden = ndim - named
    if hidden < 0 or (hidden > 0 and "." not in parts):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the "
            f"number of dimensions ({ndim}) for operand {position} and no ellipsis was given"
        )
    letters: list[Letter] = []
    for part in parts:
        letters.extend(range(-hidden, 0) if part == "." else [part])
    return letters


def _meet(sizes: dict[Letter, Any], letter: Letter, size: Any) -> None:
    known = sizes.get(letter, 1)
    if known != 1 and size != 1 and known != size and is_static(known) and is_static(size):
        raise RuntimeError(
            f"einsum(): subscript {letter} has size {size} for operand which does not broadcast "
            f"with previously seen size {known}"
        )
    if known == 1:
        sizes[letter] = size


def _diagonals(x: Any, letters: list[Letter]) -> tuple[Any, list[Letter]]:
    """A letter twice in one operand means its diagonal (which goes last)."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = diagonal(x, 0, first, second)
            letters = [v for i, v in enumerate(letters) if i not in (first, second)] + [letter]
    return x, letters


def _sum_out(x: Any, letters: list[Letter], wanted: set[Letter]) -> tuple[Any, list[Letter]]:
    dims = tuple(i for i, letter in enumerate(letters) if letter not in wanted)
    if not dims:
        return x, letters
    return reduce_sum(x, dims), [letter for letter in letters if letter in wanted]


def _arrange(x: Any, letters: list[Letter], order: Sequence[Letter]) -> Any:
    """x with its dims in `order`; letters it lacks become size 1."""
    have = [letter for letter in order if letter in letters]
    dims = tuple(letters.index(letter) for letter in have)
    if dims != tuple(range(len(dims))):
        x = permute(x, dims)
    sizes = dict(zip(have, x.shape, strict=True))
    shape = tuple(sizes.get(letter, 1) for letter in order)
    return reshape(x, shape) if shape != x.shape else x


def _join(
    a: Any, a_letters: list[Letter], b: Any, b_letters: list[Letter], wanted: set[Letter]
) -> tuple[Any, list[Letter]]:
    """The product of two operands, summed over the letters nobody wants any more."""
    a, a_letters = _sum_out(a, a_letters, wanted | set(b_letters))
    b, b_letters = _sum_out(b, b_letters, wanted | set(a_letters))
    shared = [x for x in a_letters if x in b_letters]
    summed = [x for x in shared if x not in wanted]
    batch = [x for x in shared if x in wanted]
    rows = [x for x in a_letters if x not in shared]
    columns = [x for x in b_letters if x not in shared]
    if not summed:
        order = [*batch, *rows, *columns]
        return mul(_arrange(a, a_letters, order), _arrange(b, b_letters, order)), order
    sizes_a = dict(zip(a_letters, a.shape, strict=True))
    sizes_b = dict(zip(b_letters, b.shape, strict=True))
    both = {x: broadcast_shapes((sizes_a[x],), (sizes_b[x],))[0] for x in shared}
    sizes = {**sizes_a, **sizes_b, **both}
    left = _matrix(_arrange(a, a_letters, [*batch, *rows, *summed]), sizes, batch, rows, summed)
    right = _matrix(
        _arrange(b, b_letters, [*batch, *summed, *columns]), sizes, batch, summed, columns
    )
    result = dot(left, right)
    order = [*batch, *rows, *columns]
    return reshape(result, tuple(sizes[x] for x in order)), order


def _matrix(x: Any, sizes: dict, batch: list, rows: list, columns: list) -> Any:
    """[batch..., rows..., columns...] -> [batch, rows, columns]; no batch letters, no batch dim."""
    full = tuple(sizes[letter] for letter in (*batch, *rows, *columns))
    x = expand(x, full) if x.shape != full else x
    lead = (product(sizes[letter] for letter in batch),) if batch else ()
    shape = (*lead, product(sizes[v] for v in rows), product(sizes[v] for v in columns))
    return reshape(x, shape) if shape != x.shape else x
