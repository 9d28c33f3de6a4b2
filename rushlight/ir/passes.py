"""Passes and pipelines: named steps over a value (a graph, a tile program), checked and shown.

    pipeline = Pipeline("graph", (
        Pass("decompose", decompose, ensures={"primitive"}),
        Pass("fuse", fuse, requires={"primitive"}),
    ), to_text=graph_text, verify=verify)
    result = pipeline.run(graph)

When it is built, every fact a pass requires must be ensured by an earlier one (or be given).
When it runs: CHECK verifies the value after each pass; DEBUG>=5 prints what each pass changed;
DUMP writes the text after each pass to a numbered file; ONLY=pass:NAME narrows both to one pass.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rushlight.base.config import config


class PipelineError(ValueError):
    """Passes in an order that cannot work, or a pass that left an invalid value."""


@dataclass(frozen=True)
class Pass:
    """run(value) -> value. Facts are short words: `requires` must hold before, `ensures` hold
    after, `breaks` no longer hold after."""

    name: str
    run: Callable[[Any], Any]
    requires: Collection[str] = ()
    ensures: Collection[str] = ()
    breaks: Collection[str] = ()


class Pipeline:
    """An ordered list of passes over one kind of value.

    to_text  prints the value (for diffs and dumps)
    verify   raises when the value is not well formed
    facts    what is true of every input
    """

    def __init__(
        self,
        name: str,
        passes: Collection[Pass],
        *,
        to_text: Callable[[Any], str] = str,
        verify: Callable[[Any], None] | None = None,
        facts: Collection[str] = (),
    ) -> None:
        self.name, self.passes = name, tuple(passes)
        self.to_text, self.verify = to_text, verify
        self.facts = self._facts_after(set(facts))

    def _facts_after(self, known: set[str]) -> frozenset[str]:
        seen: set[str] = set()
        for step in self.passes:
            if step.name in seen:
                raise PipelineError(f"pipeline {self.name}: two passes are called {step.name!r}")
            seen.add(step.name)
            missing = sorted(set(step.requires) - known)
            if missing:
                raise PipelineError(
                    f"pipeline {self.name}: pass {step.name!r} requires {', '.join(missing)}, "
                    f"but before it only these hold: {', '.join(sorted(known)) or 'nothing'}"
                )
            known = (known - set(step.breaks)) | set(step.ensures)
        return frozenset(known)

    def run(self, value: Any, label: str = "", out: TextIO | None = None) -> Any:
        """The value after all passes. `label` names it in dumps; `out`: where diffs go (stderr)."""
        debug, dump, check = config.debug >= 5, config.dump, config.check >= 1
        before = self.to_text(value) if debug or dump else ""
        if dump:
            self._write(label, 0, "input", before)
        for number, step in enumerate(self.passes, 1):
            value = step.run(value)
            if check and self.verify is not None:
                with self._blame(step):
                    self.verify(value)
            if not (debug or dump):
                continue
            after = self.to_text(value)
            if debug and _chosen(step.name):
                print(self.diff(step.name, before, after), file=out or sys.stderr, end="")
            if dump and _chosen(step.name):
                self._write(label, number, step.name, after)
            before = after
        return value

    def diff(self, name: str, before: str, after: str) -> str:
        """A unified diff of what a pass changed, or one line that says nothing changed."""
        if before == after:
            return f"--- {self.name}: {name} changed nothing\n"
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"{self.name}: before {name}",
            f"{self.name}: after {name}",
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    @contextmanager
    def _blame(self, step: Pass) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise PipelineError(f"pipeline {self.name}: after {step.name}: {error}") from error

    def _write(self, label: str, number: int, name: str, text: str) -> None:
        folder = Path(config.dump) / self.name / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}_{name}.txt").write_text(text)


def _chosen(name: str) -> bool:
    """ONLY=pass:NAME picks one pass; other forms of ONLY do not concern passes."""
    only = config.only
    return not only.startswith("pass:") or only == f"pass:{name}"
