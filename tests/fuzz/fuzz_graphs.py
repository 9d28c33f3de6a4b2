"""Random graphs of primitive nodes, always valid, always the same for the same seed.

In: a seed and a choice of sizes. Out: a `Graph` of nodes over buffer leaves. Always true: the
structure depends on the seed alone. Dimensions are named (`Dim.key`), ops are drawn by name and by
nominal size, so two size choices of one seed give the same structure with other sizes, as two
calls of a user's function would. Values stay small (`Value.bound`), and what depends on a value in
jumps (comparisons, positions, casts to whole numbers) is only applied to values that numpy and
the compiler compute with equal bits (`Value.exact`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import rushlight.ops as O
from rushlight.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.ir.node import Node, buffer_node, const_node, scalar_node
from rushlight.runtime.buffer import allocate

FLOATS = (float32, float32, float32, float64, bfloat16, float16)
NARROW = (int8, int16, uint8)
BIG_BOUND = 16.0


@dataclass(frozen=True)
class Dim:
    """A size `n` with a name; `nominal` is what decisions look at (the same for all sizes)."""

    key: str
    n: int
    nominal: int

    def apply(self, name: str, fn: Callable[[int], int]) -> Dim:
        return Dim(f"{name}({self.key})", fn(self.n), fn(self.nominal))

    def times(self, other: Dim) -> Dim:
        key = f"{self.key}*{other.key}"
        if self.n == 1 or other.n == 1:
            key = other.key if self.n == 1 else self.key
        return Dim(key, self.n * other.n, self.nominal * other.nominal)

    def plus(self, other: Dim) -> Dim:
        return Dim(f"({self.key}+{other.key})", self.n + other.n, self.nominal + other.nominal)


def fixed(n: int) -> Dim:
    return Dim(str(n), n, n)


@dataclass(frozen=True)
class Value:
    node: Node
    dims: tuple[Dim, ...]
    bound: float
    exact: bool

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(d.key for d in self.dims)

    @property
    def nominal(self) -> int:
        return int(np.prod([d.nominal for d in self.dims], dtype=np.int64))

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point


@dataclass
class Graph:
    """`values` in the order of building (inputs first), `roots` some of their nodes."""

    seed: int
    values: list[Value] = field(default_factory=list)
    roots: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        return [v.node for v in self.values]


SMALL = (3, 4, 5, 7, 8, 13, 16, 17)
MIDDLE = (18, 31, 32, 33, 60, 64, 65, 100, 130)
LARGE = (300, 511, 700, 1024, 2000)
HUGE = (4096, 4097, 9000, 17000)


def sizes_of(seed: int, choice: int) -> list[Dim]:
    """The named sizes of a seed; `choice` 0 is the nominal one."""
    rng = random.Random(f"sizes {seed}")
    classes = [SMALL, rng.choice((SMALL, MIDDLE)), rng.choice((MIDDLE, LARGE)), SMALL]
    if is_big(seed):
        classes = [SMALL, SMALL, HUGE, SMALL]
    nominal = [rng.choice(c) for c in classes]
    sizes = nominal
    if choice:
        rng = random.Random(f"sizes {seed} {choice}")
        sizes = [rng.choice(c) for c in classes]
    return [Dim("ABCD"[i], n, m) for i, (n, m) in enumerate(zip(sizes, nominal, strict=True))]


def is_big(seed: int) -> bool:
    return seed % 12 == 11


def generate(seed: int, choice: int = 0, steps: int | None = None) -> Graph:
    """The graph of a seed with its size choice."""
    maker = Maker(seed, sizes_of(seed, choice))
    rng = random.Random(f"length {seed}")
    count = rng.choice((4, 6, 8, 12, 16, 24)) if steps is None else steps
    maker.inputs(random.Random(f"inputs {seed}"))
    for number in range(count):
        maker.step(random.Random(f"step {seed} {number}"))
    maker.graph.roots = maker.choose_roots(random.Random(f"roots {seed}"))
    return maker.graph


def leaf_of(array: np.ndarray, dtype: DType) -> Node:
    memory = allocate(array.nbytes)
    memory.view(dtype, array.shape)[...] = array
    return buffer_node(memory, array.shape, dtype)


class Maker:
    """Adds values to `graph`: inputs, then one op (and what prepares it) per step."""

    def __init__(self, seed: int, sizes: list[Dim]) -> None:
        self.graph = Graph(seed)
        self.seed, self.sizes = seed, sizes
        self.limit = 70000 if is_big(seed) else 6000
        self.special = seed % 10 == 3
        self.arrays = 0

    # values ------------------------------------------------------------

    def add(self, node: Node, dims: tuple[Dim, ...], bound: float, exact: bool) -> Value:
        assert tuple(d.n for d in dims) == node.shape, (node, dims)
        value = Value(node, dims, bound, exact)
        self.graph.values.append(value)
        return value

    def random_dims(self, rng: random.Random) -> tuple[Dim, ...]:
        for _ in range(20):
            rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
            pool = [*self.sizes, *self.sizes, fixed(1), fixed(2)]
            dims = tuple(rng.choice(pool) for _ in range(rank))
            if rng.random() < 0.03 and rank:
                dims = (*dims[:-1], fixed(0))
            if np.prod([d.nominal for d in dims], dtype=np.int64) <= self.limit:
                return dims
        return ()

    def array(self, dims: tuple[Dim, ...], dtype: DType, high: int | None = None) -> np.ndarray:
        self.arrays += 1
        rng = np.random.default_rng([self.seed, self.arrays])
        shape = tuple(d.n for d in dims)
        if dtype is bool_:
            return rng.random(shape) < 0.5
        if dtype.is_integral:
            low = 0 if high is not None or dtype.kind == "uint" else -9
            return rng.integers(low, 10 if high is None else high, shape)
        array = rng.standard_normal(shape).clip(-4, 4).astype(dtype.np)
        if self.special and array.size:
            flat = array.reshape(-1)
            for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                flat[rng.integers(0, flat.size)] = value
        return array

    def inputs(self, rng: random.Random) -> None:
        shapes = [self.random_dims(rng) for _ in range(2)]
        if is_big(self.seed):
            shapes[0] = (fixed(2), self.sizes[2])
        for number in range(rng.choice((2, 3, 4))):
            dims = rng.choice(shapes) if rng.random() < 0.6 else self.random_dims(rng)
            dims = shapes[0] if number == 0 else dims
            dtype = rng.choice((*FLOATS, float32, float32, int32, int64, bool_, rng.choice(NARROW)))
            self.input(dims, dtype)

    def input(self, dims: tuple[Dim, ...], dtype: DType) -> Value:
        bound = 4.0 if dtype.is_floating_point else 10.0
        return self.add(leaf_of(self.array(dims, dtype), dtype), dims, bound, True)

    def choose_roots(self, rng: random.Random) -> list[Node]:
        used = {id(s) for v in self.graph.values for s in v.node.src}
        computed = [v.node for v in self.graph.values if not v.node.leaf]
        sinks = [n for n in computed if id(n) not in used]
        extra = [n for n in computed if rng.random() < 0.15]
        roots = list(dict.fromkeys([*sinks, *extra])) or computed[-1:]
        rng.shuffle(roots)
        return roots

    # choosing operands ------------------------------------------------------------

    def pick(self, rng: random.Random, want: Callable[[Value], bool]) -> Value | None:
        """A value of that kind; late ones more often."""
        found = [v for v in self.graph.values if want(v)]
        if not found:
            return None
        return found[min(len(found) - 1, int(len(found) * rng.random() ** 0.6))]

    def partner(self, rng: random.Random, x: Value, exact: bool = False) -> Value:
        """A second operand that broadcasts with x and has its dtype."""

        def fits(v: Value) -> bool:
            if v.dtype is not x.dtype or len(v.dims) > len(x.dims) or (exact and not v.exact):
                return False
            tail = x.dims[len(x.dims) - len(v.dims) :]
            return all(a.key in (b.key, "1") for a, b in zip(v.dims, tail, strict=True))

        found = self.pick(rng, fits)
        if found is None or rng.random() < 0.15:
            dims = tuple(fixed(1) if rng.random() < 0.3 else d for d in x.dims)
            return self.input(dims[rng.randrange(len(dims) + 1) :], x.dtype)
        return found

    def tame(self, x: Value, bound: float) -> Value:
        """x scaled down by a power of two (exactly) until it is within the bound."""
        if x.bound <= bound or not x.is_float:
            return x
        factor = 2.0 ** -int(np.ceil(np.log2(x.bound / bound)))
        exact = x.exact and not self.special
        return self.add(O.mul(x.node, factor), x.dims, x.bound * factor, exact)

    def step(self, rng: random.Random) -> None:
        names = [n for n, weight in STEPS.items() for _ in range(weight)]
        for _ in range(8):
            if getattr(self, f"do_{rng.choice(names)}")(rng):
                return

    # elementwise ------------------------------------------------------------

    def do_smooth(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.is_float)
        if x is None:
            return False
        x = self.tame(x, 4.0)
        name = rng.choice("exp tanh sin cos sigmoid erf expm1 atan exp2 asinh".split())
        bound = 64.0 if name.startswith("exp") else 4.0
        self.add(getattr(O, name)(x.node), x.dims, bound, False)
        return True

    def do_positive(self, rng: random.Random) -> bool:
        """Functions of positive arguments, and true quotients."""
        x = self.pick(rng, lambda v: v.is_float)
        if x is None:
            return False
        positive = O.add(O.abs_(x.node), rng.choice((0.5, 1.0)))
        name = rng.choice("log sqrt rsqrt reciprocal log1p div".split())
        if name == "div":
            other = self.tame(self.partner(rng, x), 8.0)
            node = O.div(other.node, positive)
            self.add(node, x.dims, other.bound * 2, False)
            return True
        bound = max(4.0, x.bound)
        exact = name in ("sqrt", "reciprocal") and x.exact
        self.add(getattr(O, name)(positive), x.dims, bound, exact)
        return True

    def do_unary(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.dtype is not bool_)
        if x is None:
            return False
        names = ["neg", "abs_"]
        if x.exact and x.is_float:
            names += ["floor", "round_", "sign", "isnan", "signbit", "trunc"]
        if x.dtype.kind == "int":
            names += ["bitwise_not", "sign"]
        node = getattr(O, rng.choice(names))(x.node)
        self.add(node, x.dims, x.bound + 1, x.exact)
        return True

    def do_binary(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.dtype is not bool_)
        if x is None:
            return False
        x = self.tame(x, BIG_BOUND)
        y = self.tame(self.partner(rng, x), BIG_BOUND)
        name = rng.choice("add sub mul mul maximum minimum add".split())
        bound = x.bound * y.bound if name == "mul" else x.bound + y.bound
        a, b = (x.node, y.node) if rng.random() < 0.5 else (y.node, x.node)
        self.add(getattr(O, name)(a, b), x.dims, bound, x.exact and y.exact)
        return True

    def do_number(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.dtype is not bool_)
        if x is None:
            return False
        x = self.tame(x, BIG_BOUND)
        number = rng.choice((0.5, 2.0, -1.0, 3.0)) if x.is_float else rng.choice((1, 2, -3, 7))
        number = abs(number) if x.dtype.kind == "uint" else number
        make = scalar_node if rng.random() < 0.5 else const_node
        name = rng.choice("add mul sub maximum".split())
        bound = (x.bound + 1) * (abs(number) + 1)
        self.add(getattr(O, name)(x.node, make(number, x.dtype)), x.dims, bound, x.exact)
        return True

    def do_whole(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.dtype.kind == "int")
        if x is None:
            return False
        y = self.partner(rng, x)
        name = rng.choice("bitwise_and bitwise_or bitwise_xor remainder floor_divide".split())
        if name in ("remainder", "floor_divide"):
            node = getattr(O, name)(x.node, rng.choice((3, 7, -4)))
        else:
            node = getattr(O, name)(x.node, y.node)
        self.add(node, x.dims, max(16.0, x.bound + y.bound), True)
        return True

    def do_compare(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.exact)
        if x is None:
            return False
        y = self.partner(rng, x, exact=True)
        names = "lt le gt ge eq ne logical_and logical_or logical_xor".split()
        self.add(getattr(O, rng.choice(names))(x.node, y.node), x.dims, 1.0, True)
        return True

    def do_where(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: True)
        if x is None:
            return False
        keys = x.keys
        condition = self.pick(rng, lambda v: v.dtype is bool_ and v.keys == keys)
        if condition is None:
            condition = self.input(x.dims, bool_)
        y = self.partner(rng, x)
        exact = x.exact and y.exact
        bound = max(x.bound, y.bound)
        self.add(O.where(condition.node, x.node, y.node), x.dims, bound, exact)
        return True

    def do_cast(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: True)
        if x is None:
            return False
        targets = [float32, float64, bfloat16, float16]
        if x.exact and not (self.special and x.is_float):
            targets += [int32, int64, bool_]
        if x.dtype.kind == "int" and x.bound <= 1e4:
            targets += [int8, int16]
        elif x.dtype.is_integral:
            targets = [float32, float64, int32, int64, bool_]
        to = rng.choice(targets)
        if to is float16 and x.bound > 3e4:
            to = float32
        if to.kind == "int" and x.bound > 1e9:
            to = float64
        self.add(O.cast(x.node, to), x.dims, x.bound, x.exact)
        return True

    # movement ------------------------------------------------------------

    def moved(self, x: Value, node: Node, dims: tuple[Dim, ...], bound: float = 0) -> bool:
        if int(np.prod([d.nominal for d in dims], dtype=np.int64)) > self.limit:
            return False
        self.add(node, dims, max(x.bound, bound), x.exact)
        return True

    def do_reshape(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: True)
        if x is None:
            return False
        dims = list(x.dims)
        for _ in range(rng.choice((1, 1, 2))):
            kind = rng.random()
            at = rng.randrange(len(dims) + 1)
            if kind < 0.55 and len(dims) >= 2:
                at = rng.randrange(len(dims) - 1)
                dims[at : at + 2] = [dims[at].times(dims[at + 1])]
            elif kind < 0.8 and len(dims) < 5:
                dims.insert(at, fixed(1))
            else:
                dims = self.split_product(rng, dims)
        node = O.reshape(x.node, tuple(d.n for d in dims))
        return self.moved(x, node, tuple(dims))

    def split_product(self, rng: random.Random, dims: list[Dim]) -> list[Dim]:
        """Undo a product by its name, or give back what there was."""
        sizes = {d.key: d for d in self.sizes}
        for at, dim in enumerate(dims):
            left, star, right = dim.key.partition("*")
            if star and left in sizes and right in sizes:
                return [*dims[:at], sizes[left], sizes[right], *dims[at + 1 :]]
        return dims

    def do_flatten(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 1)
        if x is None:
            return False
        total = x.dims[0]
        for d in x.dims[1:]:
            total = total.times(d)
        return self.moved(x, O.reshape(x.node, (total.n,)), (total,))

    def do_permute(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 1)
        if x is None:
            return False
        order = list(range(len(x.dims)))
        rng.shuffle(order)
        return self.moved(x, O.permute(x.node, tuple(order)), tuple(x.dims[d] for d in order))

    def do_expand(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: v.nominal < 2000)
        if x is None:
            return False
        dims = [rng.choice(self.sizes) if d.n == 1 and rng.random() < 0.7 else d for d in x.dims]
        if rng.random() < 0.6:
            dims.insert(0, rng.choice([*self.sizes, fixed(2)]))
        if int(np.prod([d.nominal for d in dims], dtype=np.int64)) > self.limit or len(dims) > 5:
            return False
        return self.moved(x, O.expand(x.node, tuple(d.n for d in dims)), tuple(dims))

    def window(self, rng: random.Random, dim: Dim) -> tuple[int, Dim, int]:
        """start, length, step of a slice of a dim with a name (of at least 3 elements)."""
        kind = rng.random()
        small = any(word in dim.key for word in ("less", "half", "win"))
        if dim.nominal < 3 or dim.key.isdigit() or small or kind < 0.4:
            return 0, dim, 1
        if kind < 0.6:
            return 1, dim.apply("less1", lambda n: n - 1), 1
        if kind < 0.7:
            return rng.choice((0, 1)), fixed(2), 1
        if kind < 0.8:
            return dim.n - 1, fixed(1), 1
        if kind < 0.83:
            return 0, fixed(0), 1
        return 0, dim.apply("half", lambda n: (n + 1) // 2), 2

    def do_slice(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0)
        if x is None:
            return False
        parts = [self.window(rng, d) for d in x.dims]
        start, length, step = zip(*parts, strict=True)
        node = O.slice_(x.node, start, tuple(d.n for d in length), step)
        return self.moved(x, node, length)

    def do_flip(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0)
        if x is None:
            return False
        chosen = tuple(d for d in range(len(x.dims)) if rng.random() < 0.6) or (0,)
        return self.moved(x, O.flip(x.node, chosen), x.dims)

    def do_pad(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: 0 < len(v.dims) and v.dtype is not bool_ and v.nominal < 3000)
        if x is None or any(d.n == 0 for d in x.dims):
            return False
        low, high, inner, dims = [], [], [], []
        for d in x.dims:
            a, b = rng.choice((0, 0, 1, 3)), rng.choice((0, 0, 2))
            i = rng.choice((0, 0, 0, 1, 2))
            low.append(a), high.append(b), inner.append(i)
            same = not (a or b or (i and d.n > 1))
            make = lambda n, a=a, b=b, i=i: n + (n - 1) * i + a + b  # noqa: E731
            dims.append(d if same else d.apply(f"pad{a}{b}{i}", make))
        fill = rng.choice((0, 1, 2 if x.dtype.kind == "uint" else -2))
        node = O.pad(x.node, const_node(fill, x.dtype), tuple(low), tuple(high), tuple(inner))
        dims = [fixed(d.n) if d.key.endswith("(1)") else d for d in dims]
        return self.moved(x, node, tuple(dims), 2.0)

    def do_cat(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0 and v.nominal < 3000)
        if x is None:
            return False
        dim = rng.randrange(len(x.dims))
        rest = x.keys[:dim] + x.keys[dim + 1 :]

        def fits(v: Value) -> bool:
            keys = v.keys
            return (
                v.dtype is x.dtype
                and len(keys) == len(x.dims)
                and (keys[:dim] + keys[dim + 1 :] == rest)
            )

        parts = [x, *(self.pick(rng, fits) for _ in range(rng.choice((1, 1, 2))))]
        total = parts[0].dims[dim]
        for part in parts[1:]:
            total = total.plus(part.dims[dim])
        if total.key.strip("()+0123456789") == "":
            total = fixed(total.n)
        node = O.cat([p.node for p in parts], dim)
        dims = (*x.dims[:dim], total, *x.dims[dim + 1 :])
        if int(np.prod([d.nominal for d in dims], dtype=np.int64)) > self.limit:
            return False
        self.add(node, dims, max(p.bound for p in parts), all(p.exact for p in parts))
        return True

    def do_unfold(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: 0 < len(v.dims) < 4 and v.nominal < 2000)
        if x is None:
            return False
        dim = rng.randrange(len(x.dims))
        size, step, dilation = rng.choice(((2, 1, 1), (3, 2, 1), (2, 1, 2), (3, 3, 1)))
        reach = (size - 1) * dilation + 1
        old = x.dims[dim]
        if min(SMALL) < reach or old.key.isdigit() or "half" in old.key or "less" in old.key:
            return False
        count = old.apply(f"win{reach}{step}", lambda n: (n - reach) // step + 1)
        if step == 3 or old.nominal < 8:  # may be one window for one size, more for another
            return False
        dims = (*x.dims[:dim], count, *x.dims[dim + 1 :], fixed(size))
        return self.moved(x, O.unfold(x.node, dim, size, step, dilation), dims)

    def do_slice_scatter(self, rng: random.Random) -> bool:
        leaves_only = rng.random() < 0.5
        x = self.pick(rng, lambda v: len(v.dims) > 0 and (v.node.leaf != "" or not leaves_only))
        if x is None:
            return False
        parts = [self.window(rng, d) for d in x.dims]
        start, length, step = zip(*parts, strict=True)
        if any(d.n == 0 for d in length):
            return False
        keys = tuple(d.key for d in length)
        src = self.pick(rng, lambda v: v.dtype is x.dtype and v.keys == keys)
        if rng.random() < 0.3:  # an update that reads what it overwrites
            own = O.slice_(x.node, (0,) * len(x.dims), tuple(d.n for d in length), step)
            src = self.add(own, length, x.bound, x.exact)
        src = src or self.input(length, x.dtype)
        node = O.slice_scatter_(x.node, src.node, start, tuple(d.n for d in length), step)
        self.add(node, x.dims, max(x.bound, src.bound), x.exact and src.exact)
        return True

    # reductions, scans, sorts, contractions, indices ----------------------------------------------

    def do_reduce(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0)
        if x is None:
            return False
        dims = tuple(d for d in range(len(x.dims)) if rng.random() < 0.5)
        dims = dims or (rng.randrange(len(x.dims)),)
        empty = any(x.dims[d].n == 0 for d in dims)
        count = int(np.prod([x.dims[d].nominal for d in dims], dtype=np.int64))
        if x.dtype is bool_:
            name = rng.choice(("reduce_any", "reduce_all"))
        else:
            names = ["reduce_sum", "reduce_sum"]
            if not empty:
                names += ["reduce_max", "reduce_min"]
                names += ["argmax_", "argmin_"] if x.exact else []
            if x.bound <= 1.0 or x.dtype.kind == "int":
                names.append("reduce_prod")
            name = rng.choice(names)
        if name == "reduce_sum" and x.is_float:
            x = self.tame(x, 4000.0 / max(1, count) if x.dtype is float16 else 1e4)
        kept = tuple(d for i, d in enumerate(x.dims) if i not in dims)
        summed = name in ("reduce_sum", "reduce_prod")
        bound = x.bound * max(1, count) if summed else max(x.bound, count)
        exact = x.exact and not (summed and x.is_float)
        self.add(getattr(O, name)(x.node, dims), kept, bound, exact)
        return True

    def do_normalize(self, rng: random.Random) -> bool:
        """x - mean, or exp(x - max) over its sum: what rows kernels are made of."""
        x = self.pick(rng, lambda v: v.is_float and len(v.dims) > 0)
        if x is None or any(d.n == 0 for d in x.dims):
            return False
        x = self.tame(x, 8.0)
        dim = rng.randrange(len(x.dims))
        shape = x.node.shape
        keep = (*shape[:dim], 1, *shape[dim + 1 :])
        spread = lambda n: O.expand(O.reshape(n, keep), shape)  # noqa: E731
        if rng.random() < 0.5:
            e = O.exp(O.sub(x.node, spread(O.reduce_max(x.node, (dim,)))))
            node = O.div(e, spread(O.reduce_sum(e, (dim,))))
        else:
            node = O.sub(x.node, spread(O.mul(O.reduce_sum(x.node, (dim,)), 0.25)))
            node = O.mul(node, 2.0**-6)
        self.add(node, x.dims, 4.0 + x.bound * x.dims[dim].nominal / 64, False)
        return True

    def do_scan(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0 and v.dtype is not bool_)
        if x is None:
            return False
        dim = rng.randrange(len(x.dims))
        names = ["scan_sum", "scan_max", "scan_min"]
        names += ["scan_prod"] if x.bound <= 1.0 or x.dtype.is_integral else []
        names += ["scan_argmax", "scan_argmin"] if x.exact else []
        name = rng.choice(names)
        if name == "scan_sum":
            x = self.tame(x, 1.0 if x.dtype is float16 else 100.0)
        bound = x.bound * max(1, x.dims[dim].nominal) if name == "scan_sum" else x.bound
        bound = max(bound, x.dims[dim].nominal) if "arg" in name else bound
        exact = x.exact and not (name in ("scan_sum", "scan_prod") and x.is_float)
        self.add(getattr(O, name)(x.node, dim), x.dims, bound, exact)
        return True

    def do_sort(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0 and v.exact and v.dtype is not bool_)
        if x is None:
            return False
        dim = rng.randrange(len(x.dims))
        node = O.argsort_(x.node, dim, rng.random() < 0.5)
        self.add(node, x.dims, float(max(1, x.dims[dim].nominal)), True)
        return True

    def do_dot(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 1 and v.is_float)
        if x is None:
            return False
        x = self.tame(x, 4.0)
        *batch, _, k = x.dims
        want = (*(d.key for d in batch), k.key)

        def fits(v: Value) -> bool:
            keys = v.keys
            return v.dtype is x.dtype and len(keys) == len(x.dims) and keys[:-1] == want

        y = self.pick(rng, fits)
        n = y.dims[-1] if y is not None else rng.choice([*self.sizes[:2], fixed(1)])
        if int(np.prod([d.nominal for d in (*x.dims, n)], dtype=np.int64)) > 40 * self.limit:
            return False
        y = self.input((*batch, k, n), x.dtype) if y is None else self.tame(y, 4.0)
        bound = x.bound * y.bound * max(1, k.nominal)
        self.add(O.dot(x.node, y.node), (*x.dims[:-1], n), bound, False)
        return True

    def indices(self, rng: random.Random, target: Dim, places: tuple[Dim, ...]) -> Value:
        if len(places) == 1 and places[0].key == target.key and rng.random() < 0.4:
            node = O.iota(target.n, int64)
            node = O.flip(node, (0,)) if rng.random() < 0.5 else node
            return self.add(node, places, target.nominal, True)
        array = self.array(places, int64, max(1, target.n))
        return self.add(leaf_of(array, int64), places, target.nominal, True)

    def do_gather(self, rng: random.Random) -> bool:
        x = self.pick(rng, lambda v: len(v.dims) > 0)
        if x is None or any(d.n == 0 for d in x.dims):
            return False
        rank = rng.choice((1, 1, min(2, len(x.dims))))
        places = self.random_dims(rng)[:2]
        dims = (*places, *x.dims[rank:])
        if int(np.prod([d.nominal for d in dims], dtype=np.int64)) > self.limit:
            return False
        picked = [self.indices(rng, d, places).node for d in x.dims[:rank]]
        return self.moved(x, O.gather_nd(x.node, picked), dims)

    def do_scatter(self, rng: random.Random) -> bool:
        leaf = rng.random() < 0.5
        x = self.pick(
            rng,
            lambda v: len(v.dims) > 0 and v.dtype is not bool_ and (v.node.leaf != "" or not leaf),
        )
        if x is None or any(d.n == 0 for d in x.dims):
            return False
        x = self.tame(x, 4.0)
        rank = rng.choice((1, 1, min(2, len(x.dims))))
        places = self.random_dims(rng)[:2]
        dims = (*places, *x.dims[rank:])
        if int(np.prod([d.nominal for d in dims], dtype=np.int64)) > self.limit:
            return False
        keys = tuple(d.key for d in dims)
        src = self.pick(rng, lambda v: v.dtype is x.dtype and v.keys == keys and v.bound <= 16)
        src = src or self.input(dims, x.dtype)
        kinds = ("set", "sum", "sum", "max", "min") + (("prod",) if x.dtype.is_integral else ())
        kind = rng.choice(kinds)
        picked = [self.indices(rng, d, places).node for d in x.dims[:rank]]
        node = O.scatter_nd(x.node, src.node, picked, kind)
        grows = kind == "sum"
        bound = x.bound + src.bound * (max(1, src.nominal) if grows else 1)
        exact = x.exact and src.exact and not (grows and x.is_float)
        self.add(node, x.dims, bound, exact)
        return True

    def do_iota(self, rng: random.Random) -> bool:
        dim = rng.choice(self.sizes)
        dtype = rng.choice((int64, int32, float32))
        self.add(O.iota(dim.n, dtype), (dim,), float(dim.nominal), True)
        return True

    def do_random(self, rng: random.Random) -> bool:
        dims = self.random_dims(rng)
        seed, offset = scalar_node(rng.randrange(99), int64), scalar_node(rng.randrange(9), int64)
        bits = O.random_bits(seed, offset, tuple(d.n for d in dims))
        self.add(O.mul(O.cast(bits, float32), 2.0**-32), dims, 1.0, True)
        return True


STEPS = {
    "smooth": 3, "positive": 2, "unary": 2, "binary": 6, "number": 2, "whole": 1, "compare": 2,
    "where": 2, "cast": 2, "reshape": 3, "flatten": 1, "permute": 3, "expand": 2, "slice": 3,
    "flip": 1, "pad": 2, "cat": 2, "unfold": 1, "slice_scatter": 2, "reduce": 5, "normalize": 3,
    "scan": 2, "sort": 1, "dot": 2, "gather": 2, "scatter": 2, "iota": 1, "random": 1,
}  # fmt: skip
