"""Pipelines: facts are checked when they are built; CHECK, DEBUG and DUMP when they run."""

from __future__ import annotations

import io

import pytest

from rushlight.base.config import config
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


def test_check_blames_the_pass() -> None:
    def verify(text: str) -> None:
        if text.isupper():
            raise ValueError("too loud")

    pipeline = Pipeline("words", (SAME, UPPER), verify=verify)
    with config.override(check=0):
        pipeline.run("hi")
    with config.override(check=1), pytest.raises(PipelineError, match="after upper: too loud"):
        pipeline.run("hi")


def test_debug_prints_a_diff_of_each_pass() -> None:
    out = io.StringIO()
    with config.override(debug=5, only=""):
        Pipeline("words", (SAME, UPPER)).run("hi\n", out=out)
    assert out.getvalue().splitlines() == [
        "--- words: same changed nothing",
        "--- words: before upper",
        "+++ words: after upper",
        "@@ -1 +1 @@",
        "-hi",
        "+HI",
    ]
    out = io.StringIO()
    with config.override(debug=4):
        Pipeline("words", (UPPER,)).run("hi\n", out=out)
    assert out.getvalue() == ""


def test_only_narrows_to_a_pass() -> None:
    out = io.StringIO()
    with config.override(debug=5, only="pass:same"):
        Pipeline("words", (SAME, UPPER)).run("hi\n", out=out)
    assert out.getvalue() == "--- words: same changed nothing\n"


def test_dump_writes_numbered_files(tmp_path) -> None:
    with config.override(dump=str(tmp_path), only=""):
        Pipeline("words", (UPPER, SHOUT)).run("hi", label="k1")
    files = {p.name: p.read_text() for p in (tmp_path / "words" / "k1").iterdir()}
    assert files == {"00_input.txt": "hi", "01_upper.txt": "HI", "02_shout.txt": "HI!\n"}
