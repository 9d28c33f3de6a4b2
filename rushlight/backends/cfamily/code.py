"""Thread programs: what one thread of a group does. The waist between lowering and text.

In: nothing. Out: the statements below, over scalar expressions (`ir/scalar.E`) and index
expressions (`ir/symint`). A kernel runs `groups` groups of `threads` threads; the threads of a
group share arrays and wait for one another at barriers. On a machine without groups a group is one
thread, and barriers are gone.

Names that every kernel may use: GROUP and THREAD (numbers of this group and of this thread in it),
and for kernels with passes TURN, WIDTH and TURNS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rushlight.base.dtypes import DType
from rushlight.compiler.tile.ir import Buffer, Program
from rushlight.ir.scalar import E, topological
from rushlight.ir.symint import Expr, Var

Index = int | Expr

# What a thread reads of its neighbours: the value of the one `meta` places on, or back, or of
# number `meta` in its subgroup. Beyond the subgroup it is any value.
SUBGROUP_OPS = frozenset(("subgroup_down", "subgroup_up", "subgroup_at"))

GROUP = Var("group_id", 0, None, "axis")
THREAD = Var("thread_id", 0, None, "axis")
TURN, TURNS = Var("pass_turn", 0, None), Var("pass_turns", 0, None)
WIDTH = Var("run_width", 1, None)
PASS_NAMES = (TURN, WIDTH, TURNS)


@dataclass(frozen=True, eq=False)
class Array:
    """Memory of a kernel that is no buffer of its program, `size` elements.

    space  "private" to a thread, "shared" by a group (both end with the group), or "scratch":
           device memory that lives for all kernels of a program
    """

    name: str
    dtype: DType
    size: Index
    space: str


Memory = Buffer | Array


@dataclass(frozen=True, eq=False)
class Bind:
    """A name for an index: const long i = ...;"""

    var: Var
    value: Index


@dataclass(frozen=True, eq=False)
class Let:
    """New variables, all evaluated before the first is set. `changes`: they are set again."""

    pairs: tuple[tuple[str, E], ...]
    changes: bool = False


@dataclass(frozen=True, eq=False)
class Set:
    """Variables get new values, all evaluated before the first is set."""

    pairs: tuple[tuple[str, E], ...]


@dataclass(frozen=True, eq=False)
class Put:
    """dest[at] = value, where mask is true."""

    dest: Memory
    at: Index
    value: E
    mask: E | None = None


@dataclass(frozen=True, eq=False)
class Puts:
    """Several stores; all values and masks are evaluated before the first one happens."""

    stores: tuple[Put, ...]


@dataclass(frozen=True, eq=False)
class For:
    """for (var = start; var < stop; var += step). `independent`: no turn reads what another
    writes; `unroll`: few turns, write them out."""

    var: Var
    start: Index
    stop: Index
    step: Index
    body: Block
    independent: bool = False
    unroll: bool = False


@dataclass(frozen=True, eq=False)
class While:
    condition: E
    body: Block


@dataclass(frozen=True, eq=False)
class If:
    condition: E
    body: Block


@dataclass(frozen=True, eq=False)
class Barrier:
    """All threads of the group have come here, and see what the others wrote."""


@dataclass(frozen=True, eq=False)
class Sync:
    """Groups wait for one another, on machines that say `progress`. kind:

    "ticket"  result = place++, no other group gets the same
    "wait"    until place is not 0; then what was written before it was set can be seen
    "signal"  place = 1
    """

    kind: str
    memory: Array
    at: Index
    result: Var | None = None


@dataclass(frozen=True, eq=False)
class Matrix:
    """A subgroup's work on 8x8 matrices that its threads hold together, where the machine has units
    for that (`Machine.matrices`). kind:

    "zero"      names[0] of `dtype` is new, all 0
    "load"      names[0] of `dtype` is new: memory[at + pitch * row + column]
    "multiply"  names[0] += names[1] @ names[2]
    "store"     memory[at + pitch * row + column] = names[0]
    """

    kind: str
    names: tuple[str, ...]
    dtype: DType
    memory: Array | None = None
    at: Index = 0
    pitch: int = 0


@dataclass(frozen=True, eq=False)
class Note:
    """A comment."""

    text: str


Code = Bind | Let | Set | Put | Puts | For | While | If | Barrier | Sync | Matrix | Note
Block = tuple[Code, ...]


@dataclass(frozen=True, eq=False)
class Passes:
    """WIDTH = start, 2 start, 4 start, ... while below `stop`: TURNS of them, TURN counts.

    each  the kernel runs once per pass; else once, and only TURNS means something
    """

    start: int
    stop: Index
    each: bool


@dataclass(frozen=True, eq=False)
class Kernel:
    """One launch. `groups` is over the program's sizes."""

    name: str
    groups: Index
    threads: int
    arrays: tuple[Array, ...]
    body: Block
    passes: Passes | None = None


@dataclass(frozen=True, eq=False)
class ThreadProgram:
    """Kernels that run one after another. `scratch`: device memory they need, after the buffers."""

    program: Program
    kernels: tuple[Kernel, ...]
    scratch: tuple[Array, ...]


def values_in(block: Block) -> Iterator[E | int | Expr]:
    """Every expression of a block, scalar and index."""
    for code in walk(block):
        if isinstance(code, Bind):
            yield code.value
        elif isinstance(code, Let | Set):
            yield from (value for _, value in code.pairs)
        elif isinstance(code, For):
            yield from (code.start, code.stop, code.step)
        elif isinstance(code, While | If):
            yield code.condition
        elif isinstance(code, Sync | Matrix):
            yield code.at
    for store in stores_in(block):
        yield from (store.at, store.value)
        if store.mask is not None:
            yield store.mask


def uses_subgroup(block: Block) -> bool:
    """Does a thread read a value of a neighbour, or hold a part of a matrix?"""
    if any(isinstance(code, Matrix) for code in walk(block)):
        return True
    values = tuple(v for v in values_in(block) if isinstance(v, E))
    return any(node.op in SUBGROUP_OPS for node in topological(values))


def stores_in(block: Block) -> Iterator[Put]:
    for code in walk(block):
        if isinstance(code, Put):
            yield code
        elif isinstance(code, Puts):
            yield from code.stores


def written_in(block: Block) -> set[Memory]:
    found: set[Memory] = {store.dest for store in stores_in(block)}
    for code in walk(block):
        if isinstance(code, Sync):
            found.add(code.memory)
        elif isinstance(code, Matrix) and code.kind == "store" and code.memory is not None:
            found.add(code.memory)
    return found


def walk(block: Block) -> Iterator[Code]:
    """All statements, those inside others after them."""
    for code in block:
        yield code
        if isinstance(code, For | While | If):
            yield from walk(code.body)
