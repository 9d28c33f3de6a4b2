"""The lines of DEBUG: runs, choices, sources, diffs, as text for people or as JSON lines.

    DEBUG=1   [run] k12   rows_exp_float32   cpu:llvm   2048x1024   0.410 ms
    DEBUG=2   ... 16.8 MB   41.0 GB/s   13.0 GFLOP/s   cached   train.py:87
    DEBUG=3   [point] exp f32[8, 4]   yes   output             [fuse] k12 <- exp   yes   same_rows
    DEBUG=4   [source] k12 and the backend's text              DEBUG=5   [diff] of every pass

In: what `listen` tells. Out: lines on standard error. With DEBUG_FORMAT=json each line is one JSON
object with the key "event". Always true: the form of a line does not change with its content.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable
from os.path import basename
from typing import Any

from rushlight.base.config import config
from rushlight.compiler.decisions import Choice
from rushlight.engine.listen import (
    KernelRun,
    Listener,
    Stage,
    kernels_of_nodes,
    picks_of,
    sources_of,
)
from rushlight.engine.only import Only
from rushlight.ir.text import short_name

Event = dict[str, Any]


class DebugPrinter(Listener):
    """Prints what the levels of DEBUG, the filter ONLY and DEBUG_FORMAT ask for."""

    def __init__(self) -> None:
        self.level, self.only = config.debug, Only.parse(config.only)
        self.form = _to_json if config.debug_format == "json" else _to_text

    def emit(self, event: Event) -> None:
        print(self.form(event), file=sys.stderr)

    def run(self, run: KernelRun) -> None:
        if self.only.allows_kernel(run.info.name, run.info.lines):
            self.emit(run_event(run, self.level))

    def stage(self, stage: Stage) -> None:
        if stage.name == "group_points":
            for event in choice_events(stage, self.only):
                self.emit(event)
        if stage.kind == "code":
            self._code(stage)
        if self.level >= 6 and self.only.allows_pass(stage.name):
            for event in rewrite_events(stage):
                self.emit(event)
        if self.level >= 5 and stage.before is not None:
            for event in diff_events(stage, self.only):
                self.emit(event)

    def _code(self, stage: Stage) -> None:
        allowed = kernels_allowed(stage, self.only)
        for name, decisions in picks_of(stage).items():
            for decision in decisions if name in allowed else ():
                reasons = list(decision.reasons)
                self.emit(
                    {"event": "pick", "kernel": name, "choice": decision.choice, "reasons": reasons}
                )
        if self.level >= 4:
            for name, source in sources_of(stage).items():
                if name in allowed:
                    self.emit({"event": "source", "kernel": name, "text": source})


# ---------------------------------------------------------------------------------------- events


def run_event(run: KernelRun, level: int = 2) -> Event:
    event: Event = {
        "event": "run",
        "kernel": run.info.name,
        "label": run.info.label,
        "device": run.device,
        "shape": run.shape,
        "ms": round(run.seconds * 1e3, 6),
    }
    if level >= 2:
        seconds = max(run.seconds, 1e-9)
        event |= {
            "bytes": run.cost.bytes,
            "gb_s": round(run.cost.bytes / seconds / 1e9, 3),
            "flops": run.cost.flops,
            "gflop_s": round(run.cost.flops / seconds / 1e9, 3),
            "how": run.how,
            "lines": list(run.info.lines),
        }
    return event


def choice_events(stage: Stage, only: Only) -> Iterable[Event]:
    """All choices up to the pass group_points, with the names that kernels have now."""
    state, inside = stage.state, kernels_of_nodes(stage.state)
    for choice in stage.log.choices:
        assert choice.node is not None
        lines = state.lines_of(choice.node)
        kernel = state.kernel_name(choice.group) if choice.group is not None else ""
        names = [kernel] if kernel else inside.get(choice.node, [])
        made_by = "choose_points" if choice.topic == "point" else "group_points"
        if any(only.allows_part(made_by, name, lines) for name in names):
            yield choice_event(choice, kernel, lines)


def choice_event(choice: Choice, kernel: str, lines: tuple[str, ...]) -> Event:
    node = choice.node
    assert node is not None
    shape = ", ".join(str(size) for size in node.shape)
    return {
        "event": choice.topic,
        "kernel": kernel,
        "node": node.name,
        "type": f"{short_name(node.dtype)}[{shape}]",
        "choice": choice.decision.choice,
        "reasons": list(choice.decision.reasons),
        "lines": list(lines),
    }


def rewrite_events(stage: Stage) -> Iterable[Event]:
    """Every node that a graph pass replaced, by which rule."""
    for rule, where, before, after in stage.log.rewrites:
        yield {
            "event": "rewrite",
            "pass": stage.name,
            "rule": rule,
            "defined": where,
            "before": repr(before),
            "after": repr(after),
        }


def diff_events(stage: Stage, only: Only) -> Iterable[Event]:
    """What a pass made, or what it changed as unified diffs: of the graph, or of each kernel."""
    before = stage.texts_before if stage.kind in ("graph", "tiles") else {}
    kernels = kernels_allowed(stage, only) if stage.kind == "tiles" else set()
    for kernel, after in stage.texts.items():
        allowed = kernel in kernels if kernel else only.allows_pass(stage.name)
        if allowed and before.get(kernel, "") != after:
            yield _diff(stage, kernel, before.get(kernel, ""), after)


def _diff(stage: Stage, kernel: str, before: str, after: str) -> Event:
    event: Event = {"event": "ir", "pass": stage.name, "kernel": kernel, "text": after}
    if not before:
        return event
    named = f"{stage.name} {kernel}".rstrip()
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"before {named}", f"after {named}", lineterm=""
    )
    return event | {"event": "diff", "text": "\n".join(lines) + "\n"}


def kernels_allowed(stage: Stage, only: Only) -> set[str]:
    """Names of the kernels that a filter lets through at this pass."""
    return {
        name for name, lines in stage.lines.items() if only.allows_part(stage.name, name, lines)
    }


# ----------------------------------------------------------------------------------------- forms


def _to_json(event: Event) -> str:
    return json.dumps(event)


def _to_text(event: Event) -> str:
    return _FORMS[event["event"]](event)


def _run_text(event: Event) -> str:
    line = (
        f"[run] {event['kernel']:<5} {event['label']:<32} {event['device']:<10} "
        f"{event['shape']:<16} {event['ms']:>9.3f} ms"
    )
    if "how" in event:
        lines = " ".join(basename(place) for place in event["lines"]) or "-"
        line += (
            f"  {event['bytes'] / 1e6:>9.3f} MB  {event['gb_s']:>7.1f} GB/s  "
            f"{event['gflop_s']:>8.2f} GFLOP/s  {event['how']:<6}  {lines}"
        )
    return line


def _choice_text(event: Event) -> str:
    place = f"{event['kernel']} <- " if event["kernel"] else ""
    reasons = ", ".join(event["reasons"])
    head = f"[{event['event']}] {place}{event['node']} {event['type']}"
    return f"{head:<48} {event['choice']:<4} {reasons}"


def _pick_text(event: Event) -> str:
    return f"[pick] {event['kernel']}   {event['choice']}   {', '.join(event['reasons'])}"


def _rewrite_text(event: Event) -> str:
    head = f"[rewrite] {event['pass']} {event['rule']}"
    return f"{head:<48} {event['before']} -> {event['after']}   {event['defined']}"


def _block_text(event: Event) -> str:
    subject = " ".join(filter(None, (event.get("pass", ""), event["kernel"])))
    return f"[{event['event']}] {subject}\n{event['text'].rstrip()}"


_FORMS: dict[str, Callable[[Event], str]] = {
    "run": _run_text,
    "point": _choice_text,
    "fuse": _choice_text,
    "pick": _pick_text,
    "rewrite": _rewrite_text,
    "source": _block_text,
    "diff": _block_text,
    "ir": _block_text,
}
