"""What the benchmarks compute agrees with PyTorch, on each framework in a process of its own."""

import importlib.util
import subprocess
import sys

import pytest


def test_oracle_is_the_named_release(oracle):
    assert oracle.__version__.startswith("2.13.0")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp/eager", "softmax", "cumsum rows", "sort rows", "cnn/eager"])
def test_workload_agrees(oracle, rushlight, root, name):
    command = [sys.executable, str(root / "benchmarks" / "run.py"), "--check", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agree" in done.stdout
    assert "failed" not in done.stdout


@pytest.mark.parametrize("loss", ["plain", "fused"])
def test_example_gpt_has_the_losses_of_pytorch(oracle, rushlight, root, loss):
    """The same weights and batches give the same losses over a few whole training steps."""
    spec = importlib.util.spec_from_file_location(
        "example_loader", root / "tests" / "examples" / "conftest.py"
    )
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    losses, weights = {}, None
    for framework in (oracle, rushlight):
        example = loader.load_example(framework)
        options = "--layers 2 --width 32 --heads 2 --block 32 --batch 4 --loss"
        args = example.parse([*options.split(), loss])
        trainer = example.Trainer(example.Corpus(example.load_text(None)), args)
        if weights is None:
            weights = {n: p.detach().numpy().copy() for n, p in trainer.model.named_parameters()}
        with framework.no_grad():
            for name, p in trainer.model.named_parameters():
                p.copy_(framework.from_numpy(weights[name].copy()))
        losses[framework.__name__] = [trainer.step() for _ in range(5)]
    assert losses["rushlight"] == pytest.approx(losses["torch"], rel=1e-4)
