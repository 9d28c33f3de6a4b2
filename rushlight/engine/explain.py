"""What a program became: its lines, the kernels they ran in, why, the source, the times.

    with rushlight.explain() as seen:           print(rushlight.explain(model, x))
        loss = step(x)
    print(seen)                                 print(seen.at("train.py:87", source=True))

In: what `listen` tells while the explanation is open. Out: an `Explanation`, which prints as text
and writes a page (explain_html.py). Always true: it keeps texts and numbers only, so no memory of
the program is held; programs inside are compiled anew (their kernels may come from the cache).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from os.path import basename
from typing import Any

from rushlight.compiler.decisions import Choice, Decision
from rushlight.compiler.kernel_info import KernelInfo
from rushlight.compiler.step import HostStep
from rushlight.compiler.texts import step_text
from rushlight.engine import watch
from rushlight.engine.listen import (
    KernelRun,
    Listener,
    Stage,
    kernels_of_nodes,
    picks_of,
)
from rushlight.engine.only import is_line
from rushlight.engine.realize import PROGRAMS, flush
from rushlight.ir.node import topological
from rushlight.ir.text import type_text


@dataclass
class Value:
    """One value of a program after decomposition, and what was decided about it.

    op, type     "exp", "f32[8, 4]"
    recorded     the recorded op that it is (part of): "softmax"
    kernels      where it is computed, by name
    point, fuse  is it kept; which kernels it was offered to ("k1", Decision)
    """

    op: str
    type: str
    recorded: str
    lines: tuple[str, ...]
    kernels: list[str]
    point: Decision | None = None
    fuse: list[tuple[str, Decision]] = field(default_factory=list)


@dataclass
class KernelPage:
    """All about one kernel. `runs`: each time it ran. `lower` makes the backend's text."""

    info: KernelInfo
    tile: str
    picks: list[Decision] = field(default_factory=list)
    lower: Callable[[], str] = str
    runs: list[KernelRun] = field(default_factory=list)

    @cached_property
    def source(self) -> str:
        return self.lower()

    @property
    def best(self) -> KernelRun | None:
        """Its fastest run: the first one often waits for memory and threads."""
        return min(self.runs, key=lambda run: run.seconds, default=None)


class Explanation(Listener):
    """See the module. `result`: what the explained function returned."""

    def __init__(self) -> None:
        self.result: Any = None
        self.values: list[Value] = []
        self.kernels: dict[str, KernelPage] = {}
        self._pages: dict[int, KernelPage] = {}

    def stage(self, stage: Stage) -> None:
        if stage.name == "group_points":
            self.values += values_of(stage)
        elif stage.kind == "plan":
            self._add_kernels(stage)

    def run(self, run: KernelRun) -> None:
        page = self._pages.get(id(run.info))
        if page is None:  # of a program that was compiled before
            page = KernelPage(run.info, "")
            self.kernels[run.info.name] = self._pages[id(run.info)] = page
        page.runs.append(run)

    def _add_kernels(self, stage: Stage) -> None:
        state = stage.state
        assert state.plan is not None
        picks, backend, caps = picks_of(stage), stage.log.backend, stage.log.caps
        infos = state.plan.kernels
        for info, kernel, step in zip(infos, state.kernels, state.steps, strict=True):
            page = KernelPage(info, step_text(kernel), picks.get(info.name, []))
            if backend.lower_text is not None and not isinstance(step, HostStep):
                page.lower = partial(backend.lower_text, step.program, caps)
            self.kernels[info.name] = self._pages[id(info)] = page

    def lines(self) -> list[str]:
        """Every user line that recorded something, in the order of the programs."""
        return list(dict.fromkeys(line for value in self.values for line in value.lines))

    def at(self, line: str, source: bool = False) -> str:
        """The report about one user line, given as "train.py:87"."""
        return explain_line(self, line, source)

    def has(self, line: str) -> bool:
        """Was a value recorded at this line and computed?"""
        return bool(values_at(self, line))

    def __str__(self) -> str:
        return overview(self)

    __repr__ = __str__


def values_of(stage: Stage) -> list[Value]:
    """Every value of the graph, in order, with the choices about it."""
    state = stage.state
    inside = kernels_of_nodes(state)
    about: dict[Any, list[Choice]] = {}
    for choice in stage.log.choices:
        about.setdefault(choice.node, []).append(choice)
    found = []
    for node in topological(state.roots):
        if node.leaf:
            continue
        value = Value(
            node.name,
            type_text(node),
            state.recorded(node).name,
            state.lines_of(node),
            inside.get(node, []),
        )
        for choice in about.get(node, []):
            if choice.topic == "point":
                value.point = choice.decision
            else:
                value.fuse.append((state.kernel_name(choice.group), choice.decision))
        found.append(value)
    return found


# ----------------------------------------------------------------------------------------- reports


def table(rows: list[tuple[str, ...]], indent: str = "  ") -> str:
    """Aligned columns; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(indent + line for line in lines)


RUN_HEADING = ("kernel", "what", "shape", "time", "moved", "speed", "work", "code", "lines")


def run_row(page: KernelPage) -> tuple[str, ...]:
    info, run = page.info, page.best
    lines = " ".join(basename(line) for line in info.lines) or "-"
    if run is None:
        return (info.name, info.label, "", "did not run", "", "", "", "", lines)
    seconds = max(run.seconds, 1e-9)
    return (
        info.name,
        info.label,
        run.shape,
        f"{run.seconds * 1e3:.3f} ms",
        f"{run.cost.bytes / 1e6:.3f} MB",
        f"{run.cost.bytes / seconds / 1e9:.1f} GB/s",
        f"{run.cost.flops / seconds / 1e9:.2f} GFLOP/s",
        page.runs[0].how,
        lines,
    )


def overview(seen: Explanation) -> str:
    """All kernels with their times, and the lines that they come from."""
    if not seen.kernels:
        return "nothing was computed"
    rows = [RUN_HEADING, *(run_row(page) for page in seen.kernels.values())]
    return "\n".join(["Kernels (the fastest of the runs of each)", table(rows)])


def values_at(seen: Explanation, line: str) -> list[Value]:
    return [v for v in seen.values if any(is_line(known, line) for known in v.lines)]


def explain_line(seen: Explanation, line: str, source: bool = False) -> str:
    values = values_at(seen, line)
    if not values:
        known = "\n".join(f"  {known}" for known in seen.lines()) or "  none"
        return f"no value that was computed was recorded at {line}. Lines that were:\n{known}"
    names = list(dict.fromkeys(name for value in values for name in value.kernels))
    parts = [f"{line}: {_count(len(values), 'value')} in {_count(len(names), 'kernel')}"]
    parts.append("\nOps\n" + table([OP_HEADING, *(op_row(value) for value in values)]))
    parts.append("\nWhy\n" + table([WHY_HEADING, *why_rows(values)]))
    pages = [seen.kernels[name] for name in names if name in seen.kernels]
    parts.append("\nKernels\n" + table([RUN_HEADING, *(run_row(page) for page in pages)]))
    for page in pages:
        parts.append(f"\n{page.info.name} computes {', '.join(page.info.ops)}")
        parts += [f"  {decision}" for decision in page.picks]
        parts.append(page.tile.rstrip())
        if source:
            parts.append(page.source.rstrip())
    return "\n".join(parts)


OP_HEADING = ("op", "type", "part of", "kernel")
WHY_HEADING = ("op", "question", "answer", "reason")


def op_row(value: Value) -> tuple[str, ...]:
    whole = "" if value.recorded == value.op else value.recorded
    return (value.op, value.type, whole, " ".join(value.kernels))


def why_rows(values: list[Value]) -> Iterator[tuple[str, ...]]:
    for value in values:
        if value.point is not None:
            yield (value.op, "kept in a place of its own?", *_answer(value.point))
        for kernel, decision in value.fuse:
            yield (value.op, f"part of {kernel}?", *_answer(decision))


def _answer(decision: Decision) -> tuple[str, str]:
    return decision.choice, ", ".join(decision.reasons)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


# --------------------------------------------------------------------------------------- listening


@contextmanager
def explained() -> Iterator[Explanation]:
    """Explain what is computed inside. What was pending before is computed first."""
    flush()
    seen = Explanation()
    with watch.listening(seen) as family:
        try:
            yield seen
            flush()
        finally:
            PROGRAMS.forget(family)


def explain(fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
    """`explain(fn, *args)` calls fn and gives the Explanation; `with explain() as seen:` explains
    what is computed inside."""
    if fn is None:
        return explained()
    with explained() as seen:
        seen.result = fn(*args, **kwargs)
    return seen
