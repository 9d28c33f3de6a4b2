"""The example with long texts trains, and its documents do not see each other."""

import json

import pytest

SMALL = "--length 96 --layers 2 --width 16 --heads 2 --quiet".split()


def test_example_trains_and_says_what_it_used(long_context, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    assert long_context.main([*SMALL, "--steps", "4", "--lr", "0.02", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert len(found["losses"]) == 4 and found["losses"][-1] < found["losses"][0]
    assert found["peak_mb"] > 1 and 0 < found["looked_at_percent"] <= 100
    assert "tokens/s" in capsys.readouterr().out


def test_documents_do_not_see_each_other(long_context):
    torch = long_context.torch
    documents = long_context.Documents(["abcd" * 10, "efgh" * 5, "ijk" * 12])
    tokens, targets, numbers = documents.cut(95, 0)
    assert [int(targets[0, at]) for at in (39, 59, 94)] == [-100, -100, ord("k")]
    other = tokens.clone()
    other[0, :40] = ord("x")
    model = long_context.Model(2, 16, 2)
    mask = long_context.document_mask(numbers)
    for here, seen_alone in ((targets, False), (torch.where(numbers > 0, targets, -100), True)):
        with torch.no_grad():
            losses = [model(t, here, mask).item() for t in (tokens, other)]
        assert (losses[0] == losses[1]) == seen_alone


def test_wrong_sizes_are_refused(long_context, capsys):
    for options, text in (
        (["--length", "0"], "--length must be at least 1, got 0"),
        (["--width", "10", "--heads", "4"], "--width 10 must be a multiple of --heads 4"),
    ):
        with pytest.raises(SystemExit):
            long_context.main(options)
        assert text in capsys.readouterr().err
