"""The parts of the GPT example that need no framework: corpus, count models, schedule, curves."""

import math
import xml.etree.ElementTree as ElementTree
from collections import Counter

import numpy as np
import pytest


def slow_ngram_loss(train, val, n, vocab):
    """Witten-Bell as its definition reads, one character at a time."""
    followers = [Counter() for _ in range(n)]
    kinds = [Counter() for _ in range(n)]
    for order in range(n):
        grams = Counter(tuple(train[i : i + order + 1]) for i in range(len(train) - order))
        for gram, count in grams.items():
            followers[order][gram] = count
            kinds[order][gram[:-1]] += 1
    totals = [Counter() for _ in range(n)]
    for order in range(n):
        for gram, count in followers[order].items():
            totals[order][gram[:-1]] += count

    def p(gram):
        if not gram:
            return 1.0 / vocab
        order, history = len(gram) - 1, gram[:-1]
        total, kind = totals[order][history], kinds[order][history]
        if not total:
            return p(gram[1:])
        return (followers[order][gram] + kind * p(gram[1:])) / (total + kind)

    text = list(train[len(train) - (n - 1) :]) + list(val)
    grams = [tuple(text[i : i + n]) for i in range(len(val))]
    return -sum(math.log(p(gram)) for gram in grams) / len(val)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ngram_loss_is_its_definition(plain_example, n):
    rng = np.random.default_rng(n)
    # A skewed distribution, so that some histories of the validation part were never seen.
    codes = np.minimum(rng.geometric(0.3, 700), 12).astype(np.int64) - 1
    train, val = codes[:600], codes[600:]
    fast = plain_example.ngram_loss(train, val, n, 12)
    assert fast == pytest.approx(slow_ngram_loss(train, val, n, 12), rel=1e-12)


def test_ngram_losses_of_the_help_topics(plain_example):
    corpus = plain_example.Corpus(plain_example.load_text(None))
    losses = [
        plain_example.ngram_loss(corpus.train, corpus.val, n, len(corpus.chars)) for n in (3, 4)
    ]
    # The text differs a little between Python versions.
    assert losses[0] == pytest.approx(1.71, abs=0.06)
    assert losses[1] == pytest.approx(1.40, abs=0.06)


def test_corpus_is_cut_at_a_fixed_place_and_decodes(plain_example):
    corpus = plain_example.Corpus("abcabcabcabcabcabcab")
    assert (len(corpus.train), len(corpus.val)) == (18, 2)
    assert corpus.decode(corpus.train[:4]) == "abca"


def test_schedule_warms_up_and_falls(plain_example):
    args = plain_example.parse(["--steps", "100", "--warmup", "10"])
    scale = plain_example.lr_scale(args)
    values = [scale(step) for step in range(101)]
    assert values[0] == pytest.approx(0.1)
    assert max(values) == pytest.approx(1.0)
    assert values[10:] == sorted(values[10:], reverse=True)
    assert values[100] == pytest.approx(0.05)


def test_epoch_visits_every_window_once(plain_example, monkeypatch):
    monkeypatch.setattr(plain_example, "windows", lambda codes, starts, block: starts)
    args = plain_example.parse(["--batch", "3", "--block", "8", "--seed", "5"])
    codes = np.zeros(8 * 31, np.int64)
    per_epoch = (len(codes) - 1 - 8) // 8 // 3
    starts = [plain_example.train_batch(codes, args, step) for step in range(2 * per_epoch)]
    first, second = np.concatenate(starts[:per_epoch]), np.concatenate(starts[per_epoch:])
    for epoch in (first, second):
        assert len(set(epoch)) == len(epoch)
        assert set(np.diff(np.sort(epoch))) == {8}
        assert epoch.min() >= 0
        assert epoch.max() + 8 + 1 <= len(codes)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("losses", [[1.0], [2.0, 2.0, 2.0], [4.0, 3.0, 2.5, 2.2, 2.1]])
def test_sketch_has_its_rows_for_any_curve(plain_example, losses):
    lines = plain_example.sketch(losses, columns=10, rows=4).splitlines()
    assert len(lines) == 5
    assert lines[-1].endswith(f"step {len(losses)}")


def test_svg_is_well_formed(plain_example):
    text = plain_example._svg([3.0, 2.0, 1.5], {"GPT": 1.6, "4-gram": 1.4})
    assert ElementTree.fromstring(text).tag.endswith("svg")


def resumed(example, argv: list[str]):
    saved = vars(example.parse(["--steps", "50", "--lr", "0.5", "--out", "there"]))
    return example.resumed_args(example.parse(argv), example.given_options(argv), saved)


def test_resumed_args_keep_what_decides_the_bits(plain_example):
    mixed = resumed(plain_example, ["--resume", "--out", "here", "--quiet", "--lr", "0.5"])
    assert (mixed.steps, mixed.lr, mixed.out, mixed.quiet) == (50, 0.5, "here", True)


@pytest.mark.parametrize("option", ["--steps 7", "--steps 400", "--layers 2"])
def test_resumed_run_does_not_drop_an_option_in_silence(plain_example, option):
    """400 steps are the default: what counts is that somebody asked for them."""
    with pytest.raises(SystemExit, match=f"{option}: the checkpoint in here was made with"):
        resumed(plain_example, ["--resume", "--out", "here", *option.split()])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--batch 0", "--batch 0: at least 1"),
        ("--steps -3", "--steps -3: at least 1"),
        ("--width 100 --heads 3", "not a multiple"),
        ("--temperature 0", "above 0"),
        ("--compile --attention document", "leave out --compile"),
    ],
)
def test_options_that_cannot_work_are_refused(plain_example, capsys, options, message):
    with pytest.raises(SystemExit):
        plain_example.parse(options.split())
    assert message in capsys.readouterr().err


def test_text_that_cannot_be_read_is_named(plain_example, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("absent", "bytes"):
        with pytest.raises(SystemExit, match=f"--text .*{name}"):
            plain_example.load_text(str(tmp_path / name))


def test_text_that_is_too_short_is_refused_before_anything_is_written(plain_example, tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("too short")
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match="too short for one batch"):
        plain_example.main(["--text", str(text), "--out", str(out)])
    assert not out.exists()
