"""Passes and pipelines: named steps over a value (a graph, the state of a compilation).

    pipeline = Pipeline("compile", (
        Pass("decompose", decompose, ensures={"primitive"}),
        Pass("fuse", fuse, requires={"primitive"}, verify=check_groups),
    ))
    result = pipeline.run(graph, verify=True, after=show)

When it is built, every fact a pass requires must be ensured by an earlier one (or be given).
When it runs, `verify` checks what each pass made, and `after(pass, number, before, value)` is told
of each: debug output, dumps and comparisons are made of that. Always true: a pass gives a new
value and leaves the old one as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


class PipelineError(ValueError):
    """Passes in an order that cannot work, or a pass that left an invalid value."""


@dataclass(frozen=True)
class Pass(Generic[V]):
    """run(value) -> value. `kind`: which part of the value it makes (a word for listeners).

    Facts are short words: `requires` must hold before, `ensures` hold after, `breaks` no longer
    hold after. verify(value) raises ValueError when what the pass made is not well formed.
    """

    name: str
    run: Callable[[V], V]
    kind: str = ""
    requires: Collection[str] = ()
    ensures: Collection[str] = ()
    breaks: Collection[str] = ()
    verify: Callable[[V], None] | None = None


After = Callable[[Pass[V], int, V, V], None]


class Pipeline(Generic[V]):
    """An ordered list of passes over one kind of value. `facts`: what is true of every input."""

    def __init__(self, name: str, passes: Collection[Pass[V]], facts: Collection[str] = ()) -> None:
        self.name, self.passes = name, tuple(passes)
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

    def run(self, value: V, *, verify: bool = False, after: After[V] | None = None) -> V:
        """The value after all passes. Passes are numbered from 1."""
        for number, step in enumerate(self.passes, 1):
            before, value = value, step.run(value)
            if verify and step.verify is not None:
                self._verify(step, value)
            if after is not None:
                after(step, number, before, value)
        return value

    def _verify(self, step: Pass[V], value: V) -> None:
        assert step.verify is not None
        try:
            step.verify(value)
        except ValueError as error:
            raise PipelineError(f"pipeline {self.name}: after {step.name}: {error}") from error
