"""The GPT example trains, resumes to the same bits, and writes the same text with a cache."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SMALL = "--layers 1 --width 32 --heads 2 --block 16 --batch 4 --dropout 0.1 --sample 40 --quiet"


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_example_runs_and_writes_its_files(example, tmp_path, capsys):
    assert example.main([*SMALL.split(), "--steps", "6", "--out", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"checkpoint.pt", "summary.json"} <= names
    assert names & {"loss.png", "loss.svg"}
    assert len(summary(tmp_path)["losses"]) == 6
    out = capsys.readouterr().out
    for text in ("GPT", "bit for bit: True", "3-gram", "4-gram", "40 characters"):
        assert text in out


@pytest.mark.parametrize("kind", ["causal", "window", "document", "alibi"])
def test_cached_logits_equal_those_of_the_whole_window(example, kind):
    torch = example.torch
    torch.manual_seed(0)
    corpus = example.Corpus("ab\n\ncde\n\n")
    model = example.GPT(11, 8, 2, 2, 16, kind=kind, newline=corpus.newline)
    text = [1, 2, 0, 0, 3, 4, 5, 1]
    tokens = torch.tensor([text])
    with torch.no_grad():
        whole = model(tokens)
        caches = model.new_caches()
        for pos in range(8):
            since = 0
            if kind == "document":
                since = example.document_start(text, 0, pos, corpus)
                assert since == (3 if pos >= 3 else 0)
            one = model(tokens[:, pos : pos + 1], caches, pos, since=since)
            assert torch.allclose(one[:, 0], whole[:, pos], atol=1e-5)
    plain = example.GPT(11, 8, 2, 2, 16)
    plain.load_state_dict(model.state_dict())
    assert torch.allclose(plain(tokens), whole, atol=1e-5) == (kind == "causal")


@pytest.mark.parametrize("kind", ["window", "document", "alibi"])
def test_other_attentions_train_and_write(example, kind, tmp_path, capsys):
    options = [*SMALL.split(), "--steps", "4", "--out", str(tmp_path), "--attention", kind]
    assert example.main(options) == 0
    assert len(summary(tmp_path)["losses"]) == 4
    assert "the same logits, bit for bit: True" in capsys.readouterr().out


def test_fused_loss_trains_to_the_same_losses(example, tmp_path):
    def losses(*more):
        options = [*SMALL.split(), "--steps", "4", "--out", str(tmp_path), *more]
        assert example.main(options) == 0
        found = summary(tmp_path)
        return [*found["losses"], found["validation"]["GPT"]]

    assert losses("--loss", "fused") == pytest.approx(losses(), rel=1e-5)


def test_documents_do_not_go_with_compile(example, capsys):
    with pytest.raises(SystemExit):
        example.main(["--attention", "document", "--compile"])
    assert "leave out --compile" in capsys.readouterr().err


def test_resume_without_a_checkpoint_is_refused(example, tmp_path, capsys):
    assert example.main(["--resume", "--out", str(tmp_path)]) == 2
    assert "nothing to resume" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resumed_run_has_the_bits_of_an_uninterrupted_one(example, tmp_path, root, how):
    def command(folder, *more):
        options = [*SMALL.split(), "--steps", "200", "--ckpt-every", "5", "--out", str(folder)]
        return [sys.executable, str(root / "examples" / "gpt.py"), *options, *more]

    environ = {**os.environ, "PYTHONPATH": str(root)}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, env=environ)
    run = subprocess.Popen(command(broken), env=environ)
    deadline = time.monotonic() + 120
    while not (broken / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(how)
    run.wait(timeout=60)
    assert not (broken / "summary.json").exists(), "the run ended before it was stopped"
    subprocess.run(command(broken, "--resume"), check=True, env=environ)
    assert summary(broken)["losses"] == summary(whole)["losses"]
    assert summary(broken)["validation"] == summary(whole)["validation"]
