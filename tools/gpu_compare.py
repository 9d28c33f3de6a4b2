"""A product, FlexAttention with gradients and the fused loss: Rushlight's and PyTorch's, on a GPU.

    python tools/gpu_compare.py [DEVICE]        # "cuda"; "cpu" compares the llvm backend

One line each: the largest difference relative to the largest value, and the times of both. Exits
with 1 where a difference is too large. Without PyTorch only Rushlight's side runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

TOLERANCE = 2e-4
REPEATS = 5


def matrices(torch: Any, device: str) -> Any:
    """1024 x 1024 in float32."""
    a, b = (_tensor(torch, device, seed, 1024, 1024) for seed in (1, 2))
    return a @ b


def attention(torch: Any, device: str) -> Any:
    """Causal with a bias by distance, the gradient of the queries."""
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    q, k, v = (_tensor(torch, device, seed, 1, 2, 128, 32).requires_grad_() for seed in (3, 4, 5))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device=device)
    out = flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + 0.1 * (j - i), mask)
    (out * out).sum().backward()
    return q.grad


def loss(torch: Any, device: str) -> Any:
    """Cross entropy of a linear layer, the gradient of its input."""
    x = _tensor(torch, device, 6, 256, 64).requires_grad_()
    w = _tensor(torch, device, 7, 1000, 64)
    target = torch.arange(256, device=device) % 1000
    functional = torch.nn.functional
    if hasattr(functional, "linear_cross_entropy"):
        found = functional.linear_cross_entropy(x, w, target)
    else:
        found = functional.cross_entropy(x @ w.t(), target)
    found.backward()
    return x.grad


def _tensor(torch: Any, device: str, seed: int, *shape: int) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(values).to(device)


def measured(work: Callable[[Any, str], Any], torch: Any, device: str) -> tuple[Any, float]:
    """What it computes, and the shortest time in milliseconds."""
    result = work(torch, device).detach().cpu().numpy()
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        work(torch, device).detach().cpu().numpy()
        best = min(best, time.perf_counter() - began)
    return result, best * 1e3


def against(
    work: Callable[[Any, str], Any], rival: Any, device: str, mine: np.ndarray
) -> tuple[str, bool]:
    """What is told of PyTorch's result, and whether ours is too far from it."""
    try:
        theirs, ms = measured(work, rival, device)
    except NotImplementedError as error:  # FlexAttention has no gradients on CPUs there
        return f"   PyTorch: {str(error).splitlines()[0]}", False
    far = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    return f"   PyTorch {ms:9.3f} ms   relative difference {far:.1e}", far > TOLERANCE


def main(device: str) -> int:
    own: Any = importlib.import_module("rushlight")
    rival: Any = None
    if importlib.util.find_spec("torch") is not None:
        rival = importlib.import_module("torch")
    wrong = 0
    for work in (matrices, attention, loss):
        mine, ms = measured(work, own, device)
        line = f"{work.__name__:<10} {device}: Rushlight {ms:9.3f} ms"
        if rival is not None:
            more, is_wrong = against(work, rival, device, mine)
            line, wrong = line + more, wrong + is_wrong
        print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
