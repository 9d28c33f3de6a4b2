"""Pipelines: facts are checked when they are built; results, if wanted, when they run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rushlight.ir.passes import Pass, Pipeline, PipelineError

UPPER = Pass("upper", str.upper, ensures={"loud"})
SHOUT = Pass("shout", lambda text: text + "!\n", requires={"loud"})
SAME = Pass("same", lambda text: text)


def test_passes_run_in_order_and_facts_are_known() -> None:
    pipeline = Pipeline("words", (UPPER, SHOUT))
    assert pipeline.run("hi") == "HI!\n"
    assert pipeline.facts == {"loud"}


def test_a_missing_fact_is_an_error_when_built() -> None:
    with pytest.raises(PipelineError, match="'shout' requires loud, but before it .* nothing"):
        Pipeline("words", (SHOUT, UPPER))
    Pipeline("words", (SHOUT,), facts={"loud"})
    quiet = Pass("quiet", str.lower, breaks={"loud"})
    with pytest.raises(PipelineError, match="'shout' requires loud"):
        Pipeline("words", (UPPER, quiet, SHOUT))


def test_names_are_unique() -> None:
    with pytest.raises(PipelineError, match="two passes are called 'same'"):
        Pipeline("words", (SAME, SAME))


def test_verify_blames_the_pass() -> None:
    def verify(text: str) -> None:
        if text.isupper():
            raise ValueError("too loud")

    upper = replace(UPPER, verify=verify)
    pipeline = Pipeline("words", (replace(SAME, verify=verify), upper))
    assert pipeline.run("hi") == "HI"
    with pytest.raises(PipelineError, match="pipeline words: after upper: too loud"):
        pipeline.run("hi", verify=True)


def test_after_sees_every_pass() -> None:
    seen = []
    Pipeline("words", (UPPER, SHOUT)).run("hi", after=lambda *told: seen.append(told))
    assert seen == [(UPPER, 1, "hi", "HI"), (SHOUT, 2, "HI", "HI!\n")]
