"""Outputs and gradients have the same bits in every run, at any thread count, with and without
`use_deterministic_algorithms(True)`, whatever the mask holds of write orders."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
import numpy as np
import rushlight as torch
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

heads, strict = int(sys.argv[1]), sys.argv[2] == "strict"
torch.use_deterministic_algorithms(strict)
rng = np.random.default_rng(0)
q, k, v, g = (torch.tensor(rng.standard_normal((1, heads, 700, 16)).astype("f")) for _ in range(4))
slopes = torch.tensor(rng.random(heads).astype("f")).requires_grad_()
for x in (q, k, v):
    x.requires_grad_()
mask = create_block_mask(
    lambda b, h, i, j: (i >= j) & (i - j < 300), None, None, 700, 700,
    compute_dq_write_order=strict,
)
for _ in range(3):
    for x in (q, k, v, slopes):
        x.grad = None
    out = flex_attention(q, k, v, lambda s, b, h, i, j: s + slopes[h] * (j - i), mask,
                         kernel_options={"BACKEND": "FLASH"} if strict else None)
    out.backward(g)
    digest = hashlib.sha256()
    for x in (out, q.grad, k.grad, v.grad, slopes.grad):
        digest.update(x.detach().numpy().tobytes())
    print(digest.hexdigest())
"""


def digests(heads, mode, threads):
    environ = {**os.environ, "RUSHLIGHT_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", PROGRAM, str(heads), mode]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split()
    assert len(lines) == 3
    return set(lines)


@pytest.mark.parametrize("heads", [1, 3])
def test_bits_of_gradients_do_not_depend_on_runs_threads_or_the_switch(heads):
    found = [digests(heads, *how) for how in (("plain", 1), ("plain", 2), ("strict", 2))]
    assert found[0] == found[1] == found[2] and len(found[0]) == 1
