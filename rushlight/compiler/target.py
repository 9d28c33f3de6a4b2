"""What a target is: the interface between the compiler, the engine and the backends.

A backend turns tile programs into an `Executable` each, and a plan (a list of regions of kernel
calls over numbered buffers) into something that runs. Nothing above asks a backend its name:
it asks `caps`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.base.errors import BackendError
from rushlight.compiler.decisions import Decision
from rushlight.compiler.kernel_info import KernelInfo
from rushlight.compiler.tile.ir import Program
from rushlight.ir.symint import Expr


@dataclass(frozen=True)
class Caps:
    """What a target can do, as data. The second half is about targets whose kernels are groups of
    threads.

    features       part of every cache key
    exact          results have the bits that the tile language defines (else: to a tolerance)
    group_threads  most threads that share memory and can wait for one another
    shared_bytes   how much memory such a group shares
    subgroup       how many neighbours of a group can exchange values without memory; 1: none
    groups         how many groups are kept busy at once, about
    most_groups    how many groups one launch may have
    matrices       the side of matrices that a subgroup multiplies at once; 1: no units for it
    progress       groups that have begun go on while others wait for them
    index_bytes    of an integer that holds any offset of a buffer
    max_buffers    most buffers of one kernel; 0: any number
    one_pass_rows  a Scan may be a "running_sum"; worth it from so many rows. 0: it may not
    """

    name: str
    features: str = ""
    vector_bytes: int = 16
    threads: int = 1
    stack_tile_bytes: int = 32 << 10
    dtypes: frozenset[str] = frozenset()
    exact: bool = True
    group_threads: int = 1
    shared_bytes: int = 32 << 10
    subgroup: int = 1
    groups: int = 1
    most_groups: int = 1 << 31
    index_bytes: int = 8
    max_buffers: int = 0
    one_pass_rows: int = 0
    progress: bool = False
    matrices: int = 1

    @property
    def groups_of_threads(self) -> tuple[int, ...]:
        """What kernels of groups are lowered for: part of every key, as `features` are."""
        return (
            self.group_threads, self.shared_bytes, self.subgroup, self.groups, self.most_groups,
            self.index_bytes, self.progress, self.matrices,
        )  # fmt: skip


@dataclass(frozen=True)
class Missing:
    """Why a backend is not available, and what would mend it."""

    reason: str
    fix: str = ""


class Executable(Protocol):
    """A compiled tile program. `scratch`: further buffers (dtype, elements) it wants, given after
    the program's own; sizes in elements are ints or Exprs over the program's `sizes`."""

    program: Program
    scratch: tuple[tuple[DType, int | Expr], ...]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One use of an executable in a plan.

    buffers  indices into Plan.buffers, program order, then scratch
    ints     one per program.sizes: an int, or an Expr over the plan's variables
    scalars  one per program.params: index into the numbers given at run time
    """

    executable: Executable
    buffers: tuple[int, ...]
    ints: tuple[int | Expr, ...]
    scalars: tuple[int, ...]
    label: str = ""


@dataclass(frozen=True, eq=False)
class HostCall:
    """A Python function over numpy views of buffers: fn(inputs, outputs). `label` names its record,
    and `attrs` are the node's."""

    fn: Callable[..., None]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: tuple[tuple[int | Expr, ...], ...]
    label: str = ""
    at: int | None = None  # its node's position in every recording of the program
    attrs: tuple[Any, ...] = ()

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Call it; what it raises comes out as a HostError."""
        try:
            self.fn(inputs, outputs)
        except HostError:  # of a plan that it ran itself
            raise
        except Exception as error:
            raise HostError(self, error) from error


class HostError(Exception):
    """A host function refused its operands: `call` and what it raised."""

    def __init__(self, call: HostCall, error: Exception) -> None:
        super().__init__(str(error))
        self.call, self.error = call, error


@dataclass(frozen=True)
class BufferSpec:
    """A numbered buffer of a plan.

    kind    "input" (given at run time, read only unless donated) or "result" (a new runtime
            buffer handed back) or "temp" (lives in the arena at `offset` bytes).
    """

    dtype: DType
    size: int | Expr
    kind: str
    name: str = ""


@dataclass(eq=False)
class Plan:
    """A program of kernels: regions run one after another; the calls of a region are independent.

    variables   names of the plan's ints, in the order of the vector given at run time
    sites       what is known of each index check, by its number in the status word
    order       the step of each call, in the order in which the calls run
    reuse       result or temp -> the input whose memory it takes over
    lifetimes   buffer -> the first and the last region that touch it
    kernels     what people see of each step; how: where its kernel came from
    checks      gives compiler.checks.Checks, for the error of a check
    checked_at  of each check: its node's position in every recording of the program
    """

    buffers: tuple[BufferSpec, ...]
    regions: tuple[tuple[KernelCall | HostCall, ...], ...]
    variables: tuple[str, ...]
    sites: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    reuse: Mapping[int, int] = field(default_factory=dict)
    lifetimes: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    kernels: tuple[KernelInfo, ...] = ()
    how: Sequence[str] = ()
    checks: Callable[[], Any] | None = None
    checked_at: tuple[int | None, ...] = ()


class LoadedPlan(Protocol):
    def run(
        self, pointers: Sequence[int] | np.ndarray, ints: np.ndarray, numbers: Sequence[Any]
    ) -> int:
        """Run all regions. `pointers`: one address per Plan.buffers (temps included, placed by the
        engine's memory plan). `ints`: int64, one per Plan.variables. `numbers`: Python numbers.
        Returns the status word: 0, or the site number of a failed index check.

        A plan with an attribute `keeps` (runtime/packed.py) takes a place for each as a further
        argument; an executable with `decisions` says what was measured to choose its schedule."""
        ...


@dataclass(frozen=True)
class Backend:
    """The manifest of a target (one per folder in backends/).

    build(programs, caps) compiles many programs at once (one module where that pays).
    load(plan, caps) prepares a plan for running.
    refuse(program, caps) gives the reasons why a program cannot be built; none: it can.
    """

    name: str
    find: Callable[[], Caps | Missing]
    build: Callable[[Sequence[Program], Caps], list[Executable]]
    load: Callable[[Plan, Caps], LoadedPlan]
    lower_text: Callable[[Program, Caps], str] | None = None
    # For the disk cache: an executable as bytes, and back on the same target (None: not kept).
    dump: Callable[[Any], bytes] | None = None
    restore: Callable[[Program, bytes, Caps], Executable] | None = None
    # `restore` needs no grids, only what a call needs: whole plans are kept on disk, too.
    keeps_plans: bool = False
    # For people: machine code as text, and how the grids are run.
    lower_asm: Callable[[Program, Caps], str] | None = None
    picks: Callable[[Any, Caps], list[Decision]] | None = None
    refuse: Callable[[Program, Caps], Sequence[str]] | None = None
    # `build` compiles many programs in less time than one by one, and each stands alone.
    in_parallel: bool = False
    # Writes kernels ahead of time, for devices that need not be here; gives what is left out.
    package: Callable[[Sequence[Program], Path], list[str]] | None = None
    # Whom to ask how busy and how warm its device is: a telemetry.Source (None: nobody).
    sensors: Callable[[], Any] | None = None
    # Of a backend of more than one device type: why its device is not of this one (None: it is).
    serves: Callable[[str], Missing | None] | None = None

    def require(self) -> Caps:
        """What it can do here; a BackendError with the reason and the fix where it is missing."""
        caps = self.find()
        if isinstance(caps, Missing):
            fix = f"; {caps.fix}" if caps.fix else ""
            raise BackendError(f"backend {self.name} is not available: {caps.reason}{fix}")
        return caps
