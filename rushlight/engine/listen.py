"""What can be heard of compilations and runs, and the base of those who listen.

In: the compiler's trace, runs of kernels. Out: `Stage` and `KernelRun` for each `Listener`: the
printer of DEBUG (report.py), the writer of DUMP (dump.py), the checker of CHECK=2 (check.py) and
explanations (explain.py). Always true: listeners change nothing; texts are made when asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.cost import Cost
from rushlight.compiler.decisions import Choice, Decision, Trace
from rushlight.compiler.describe import nodes_of
from rushlight.compiler.kernel_info import KernelInfo
from rushlight.compiler.step import HostStep
from rushlight.compiler.target import Backend, Caps
from rushlight.compiler.texts import state_text
from rushlight.ir.node import Node
from rushlight.ir.passes import Pass


@dataclass(eq=False)
class Stage:
    """A pass that has run. `number` counts from 1; 0 is the recorded graph (`before` is None)."""

    log: CompileLog
    number: int
    name: str
    kind: str
    before: Compilation | None
    state: Compilation

    @cached_property
    def texts(self) -> dict[str, str]:
        """What the pass made: one text under "", or one per kernel (k12)."""
        return state_text(self.state, self.kind)

    @cached_property
    def texts_before(self) -> dict[str, str]:
        return {} if self.before is None else state_text(self.before, self.kind)

    @cached_property
    def lines(self) -> dict[str, set[str]]:
        """User lines of each kernel (after the pass group_points)."""
        found: dict[str, set[str]] = {}
        for node, names in kernels_of_nodes(self.state).items():
            lines = self.state.lines_of(node)
            for name in names:
                found.setdefault(name, set()).update(lines)
        return found


@dataclass(frozen=True)
class KernelRun:
    """One kernel has run. how: "built", "disk" or "cached"; lines: user lines."""

    info: KernelInfo
    device: str
    shape: str
    seconds: float
    cost: Cost
    how: str


class Listener:
    """Hears everything and does nothing."""

    def stage(self, stage: Stage) -> None:
        """A pass has run."""

    def run(self, run: KernelRun) -> None:
        """A kernel has run."""


class CompileLog(Trace):
    """The trace of one compilation: collects its choices, hands stages to the listeners.

    choices  in order; those about groups name kernels once the pass group_points has run
    rewrites  of the pass that runs: (rule, where it is defined, before, after)
    sample   numpy values of the inputs (by graph node), for checks
    """

    def __init__(
        self, number: int, backend: Backend, caps: Caps, listeners: Sequence[Listener],
        sample: Any = None,
    ) -> None:  # fmt: skip
        self.number, self.backend, self.caps, self.sample = number, backend, caps, sample
        self.listeners = tuple(listeners)
        self.choices: list[Choice] = []
        self.rewrites: list[tuple[str, str, Node, Node]] = []

    @property
    def name(self) -> str:
        """The program's name: p3."""
        return f"p{self.number}"

    def choose(self, choice: Choice) -> None:
        self.choices.append(choice)

    def rewrote(self, rule: str, where: str, before: Node, after: Node) -> None:
        self.rewrites.append((rule, where, before, after))

    def before(self, state: Compilation) -> None:
        self._tell(Stage(self, 0, "graph", "graph", None, state))

    def after(self, step: Pass, number: int, before: Compilation, state: Compilation) -> None:
        self._tell(Stage(self, number, step.name, step.kind, before, state))
        self.rewrites.clear()
        if state.plan is not None:
            self.sample = None  # it holds the inputs

    def _tell(self, stage: Stage) -> None:
        for listener in self.listeners:
            listener.stage(stage)


def kernels_of_nodes(state: Compilation) -> dict[Node, list[str]]:
    """Node -> names of the kernels in which it is computed (points and inlined nodes)."""
    points = state.require_points()
    found: dict[Node, list[str]] = {}
    for number, group in enumerate(state.groups, state.first):
        for node in nodes_of(group, points):
            found.setdefault(node, []).append(f"k{number}")
    return found


def picks_of(stage: Stage) -> dict[str, list[Decision]]:
    """How the backend runs each kernel, by kernel name (after the pass build)."""
    found: dict[str, list[Decision]] = {}
    for step, executable in zip(stage.state.steps, stage.state.executables, strict=True):
        name = stage.state.kernel_name(step.group)
        if isinstance(step, HostStep) or executable is None:
            found[name] = [Decision("host", ("a_numpy_function",))]
        elif stage.log.backend.picks is not None:
            found[name] = stage.log.backend.picks(executable, stage.log.caps)
    return found


def sources_of(stage: Stage, what: str = "ir") -> dict[str, str]:
    """The backend's text of each kernel (after the pass build). what: "ir" or "asm"."""
    backend, caps = stage.log.backend, stage.log.caps
    lower = backend.lower_text if what == "ir" else backend.lower_asm
    if lower is None:
        return {}
    return {
        stage.state.kernel_name(step.group): lower(step.program, caps)
        for step in stage.state.steps
        if not isinstance(step, HostStep)
    }
