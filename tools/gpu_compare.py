"""Products, FlexAttention with gradients and the fused loss: Rushlight's and PyTorch's, on a GPU.

    python tools/gpu_compare.py [DEVICE]        # "cuda"; "cpu" compares the llvm backend

One line each: the largest difference relative to the largest value, and the times of both; then how
many there were. Exits with 1 where a difference is too large or something failed, whose error is
told: the others run all the same. Without PyTorch only Rushlight's side runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

TOLERANCE = {"float32": 2e-4, "bfloat16": 2e-2}
REPEATS = 5
TOLD: set[str] = set()  # whose makers were printed


def matrices(torch: Any, device: str) -> Any:
    """1024 x 1024 in float32."""
    a, b = (_tensor(torch, device, seed, 1024, 1024) for seed in (1, 2))
    return a @ b


def matrices_16(torch: Any, device: str) -> Any:
    """1024 x 1024 in bfloat16, which tensor cores take, with gelu after it."""
    a, b = (_tensor(torch, device, seed, 1024, 1024).to(torch.bfloat16) for seed in (1, 2))
    return torch.nn.functional.gelu(a @ b).float()


def attention_16(torch: Any, device: str) -> Any:
    """Causal in bfloat16, without gradients."""
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    q, k, v = (_tensor(torch, device, seed, 2, 4, 512, 64).to(torch.bfloat16) for seed in (3, 4, 5))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 512, 512, device=device)
    return flex.flex_attention(q, k, v, None, mask).float()


def gradients_16(torch: Any, device: str) -> Any:
    """The gradients of four heads that share two of keys, causal, a bent score, in bfloat16."""
    flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
    q, to = (_tensor(torch, device, seed, 2, 4, 512, 64).to(torch.bfloat16) for seed in (8, 9))
    k, v = (_tensor(torch, device, seed, 2, 2, 512, 64).to(torch.bfloat16) for seed in (10, 11))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 512, 512, device=device)
    for x in (q, k, v):
        x.requires_grad_()
    bent = lambda s, b, h, i, j: torch.tanh(s / 20) * 20  # noqa: E731
    out = flex.flex_attention(q, k, v, bent, mask, enable_gqa=True)
    found = torch.autograd.grad(out, (q, k, v), to)
    return torch.cat([x.flatten().float() for x in found])


def by_cute(work: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """The same, its products and attention made by CuTe DSL where that can (Rushlight alone)."""

    def run(torch: Any, device: str) -> Any:
        with torch._inductor.config.patch(max_autotune_gemm_backends="CUTLASS,TRITON"):
            if hasattr(torch, "explain") and run.__name__ not in TOLD:
                TOLD.add(run.__name__)  # before the clock: a program is made anew to be explained
                seen = torch.explain(lambda: work(torch, device).cpu().numpy())
                picks = [str(x) for page in seen.kernels.values() for x in page.picks]
                told = [x for x in picks if x.startswith(("cute", "triton"))]
                print(f"  {run.__name__}: {'; '.join(told) or 'nothing was chosen'}")
            return work(torch, device)

    run.__name__ = f"{work.__name__} by CuTe"
    return run


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
    work: Callable[[Any, str], Any], rival: Any, device: str, mine: np.ndarray, bound: float
) -> tuple[str, bool]:
    """What is told of PyTorch's result, and whether ours is too far from it."""
    try:
        theirs, ms = measured(work, rival, device)
    except NotImplementedError as error:  # FlexAttention has no gradients on CPUs there
        return f"   PyTorch: {str(error).splitlines()[0]}", False
    far = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    return f"   PyTorch {ms:9.3f} ms   relative difference {far:.1e}", not far <= bound


WORKS = (
    matrices, attention, loss, matrices_16, by_cute(matrices_16), attention_16,
    by_cute(attention_16), gradients_16, by_cute(gradients_16),
)  # fmt: skip


def main(device: str) -> int:
    own: Any = importlib.import_module("rushlight")
    rival: Any = None
    if importlib.util.find_spec("torch") is not None:
        rival = importlib.import_module("torch")
    wrong = 0
    for work in WORKS:
        try:
            line, is_wrong = compared(work, own, rival, device)
        except Exception as error:  # the others are worth their time all the same
            text = str(error).splitlines()
            line, is_wrong = f"{work.__name__}: {type(error).__name__}: {text[:1]}", True
        wrong += is_wrong
        print(line + ("   WRONG" if is_wrong else ""), flush=True)
    print(f"{len(WORKS) - wrong} of {len(WORKS)} are right", flush=True)
    return 1 if wrong else 0


def compared(
    work: Callable[[Any, str], Any], own: Any, rival: Any, device: str
) -> tuple[str, bool]:  # fmt: skip
    """What is told of one work, and whether it is wrong."""
    mine, ms = measured(work, own, device)
    line = f"{work.__name__:<22} {device}: Rushlight {ms:9.3f} ms"
    if not np.isfinite(mine).all():
        return f"{line}   not finite", True
    if rival is None:
        return line, False
    bound = TOLERANCE["bfloat16" if "16" in work.__name__ else "float32"]
    more, is_wrong = against(work, rival, device, mine, bound)
    return line + more, is_wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
