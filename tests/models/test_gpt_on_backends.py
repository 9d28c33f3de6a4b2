"""The GPT of `make demo` trains on every backend with the loss curve of the default one.

Backends that promise the bits of the tile language must give the same bits; the others come within
a ten-thousandth. The model is cut down to what an emulation does in a minute.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from rushlight.backends import find_backend
from rushlight.base.config import config
from rushlight.compiler.target import Missing

STEPS = 20
# What an emulation does in a minute or two.
SMALL = {"batch": 1, "block": 16, "layers": 1, "width": 16}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gpt.py"


def load_example():
    spec = importlib.util.spec_from_file_location("gpt_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def curve(backend: str, steps: int, **sizes: int) -> list[float]:
    example = load_example()
    args = example.parse([])
    vars(args).update(
        steps=STEPS, batch=4, block=32, layers=2, heads=2, width=32, dropout=0.0, lr=3e-3, seed=1,
        warmup=4, weight_decay=0.1, clip=1.0, compile=False,
    )  # fmt: skip
    vars(args).update(sizes)
    with config.override(backend=backend):
        trainer = example.Trainer(example.Corpus(example.load_text(None)), args)
        return [trainer.step() for _ in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c", "opencl", "metal", "wgsl", "triton"])
def test_loss_curve_is_that_of_llvm(name: str) -> None:
    backend = find_backend(name)
    with config.override(metal_emulation=True, triton_interpret=True):
        caps = backend.find()
        if isinstance(caps, Missing):
            pytest.skip(f"{name}: {caps.reason}")
        sizes = SMALL if caps.features.startswith(("emulated", "interpreted")) else {}
        wanted, found = curve("llvm", STEPS, **sizes), curve(name, STEPS, **sizes)
    if caps.exact:
        assert [x.hex() for x in found] == [x.hex() for x in wanted]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert wanted[-1] < wanted[0]
