"""Prints a digest of many results, forward and backward; settings choose the target.

Used by test_targets_agree.py, which compares the output of several targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import rushlight as torch

F = torch.nn.functional
RNG = np.random.default_rng(0)


def normal(*shape: int, grad: bool = True) -> Any:
    tensor = torch.from_numpy(RNG.standard_normal(shape).astype(np.float32))
    tensor.requires_grad_(grad)
    return tensor


def gradients(loss: Callable[[], Any], *leaves: Any) -> list[Any]:
    loss().backward()
    found = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return found


def digest(tensors: Iterable[Any]) -> str:
    found = hashlib.sha1()
    for tensor in tensors:
        found.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return found.hexdigest()


def forward_cases() -> dict[str, Callable[[], Any]]:
    x, y, b = (normal(*s, grad=False) for s in ((37, 61), (37, 61), (61,)))
    z, k, big = (normal(*s, grad=False) for s in ((3, 8, 17, 33), (4, 8, 3, 3), (9, 9000)))
    ints = torch.from_numpy(RNG.integers(-50, 50, (37, 61)))
    rows = torch.from_numpy(RNG.integers(0, 37, (29,)))
    return {
        "chain": lambda: x + y * 2 - b,
        "turned": lambda: x.t().contiguous(),
        "softmax over columns": lambda: torch.softmax(x, 0),
        "log_softmax": lambda: torch.log_softmax(x, 1),
        "math": lambda: F.gelu(x) + torch.tanh(x) * torch.sin(y) + torch.pow(x.abs(), 1.7),
        "sum of channels": lambda: z.sum((0, 2, 3)),
        "sum with gaps": lambda: z.sum((1, 3)),
        "mean": lambda: z.mean(),
        "long rows": lambda: big.sum(1),
        "short columns": lambda: big.sum(0),
        "var": lambda: z.var((2, 3)),
        "amax": lambda: z.amax((1, 2)),
        "argmax": lambda: x.argmax(1),
        "argmin of columns": lambda: x.argmin(0),
        "prod": lambda: x.prod(1),
        "any": lambda: (x > 2).any(0),
        "cumsum": lambda: torch.cumsum(x, 0) + torch.cumsum(y, 1),
        "cummax": lambda: torch.cummax(x, 1)[1],
        "argsort": lambda: torch.argsort(x, 0),
        "rows": lambda: x[rows],
        "permute": lambda: z.permute(0, 2, 3, 1).contiguous(),
        "flip": lambda: torch.flip(z, (1, 3)),
        "cat": lambda: torch.cat([x, y], 1),
        "pad": lambda: F.pad(z, (1, 2, 3, 0)),
        "ints": lambda: (ints // 7 + ints % 5) * 3 + ((ints << 2) | (ints >> 1)),
        "bfloat16": lambda: (x.bfloat16() * y.bfloat16()).float(),
        "float16": lambda: (x.half() + 1).sum(1).float(),
        "float64": lambda: torch.exp(x.double()).sum(0),
        "layer_norm": lambda: F.layer_norm(x, (61,)),
        "matmul": lambda: x @ y.t(),
        "conv2d": lambda: F.conv2d(z, k),
        "int8": lambda: (x.clamp(-1, 1) * 100).to(torch.int8).float(),
        "max_pool": lambda: F.max_pool2d(z, 2),
        "index_add": lambda: torch.zeros(37, 61).index_add(0, rows, x[:29]),
        "slices": lambda: z[:, 1::2, ::3, 5:].contiguous(),
        "stack": lambda: torch.stack([x, y], 2),
    }


def backward_cases() -> dict[str, Callable[[], list[Any]]]:
    x, w, b, z, k, e = (
        normal(*s) for s in ((16, 40), (40, 24), (24,), (4, 3, 15, 17), (6, 3, 3, 3), (50, 40))
    )
    q, key, v = (normal(2, 3, 20, 16) for _ in range(3))
    scale, shift, big = normal(40), normal(40), normal(300, 1000)
    ids = torch.from_numpy(RNG.integers(0, 50, (16,)))
    goal = torch.from_numpy(RNG.integers(0, 24, (16,)))

    def attention() -> Any:
        return F.scaled_dot_product_attention(q, key, v, is_causal=True).pow(2).sum()

    return {
        "mlp": lambda: gradients(lambda: F.cross_entropy(F.gelu(x @ w + b), goal), x, w, b),
        "norm": lambda: gradients(
            lambda: (F.layer_norm(x, (40,), scale, shift) ** 2).sum(), x, scale, shift
        ),
        "conv": lambda: gradients(lambda: (F.relu(F.conv2d(z, k, padding=1)) ** 2).mean(), z, k),
        "pools": lambda: gradients(lambda: F.max_pool2d(z, 2).sum() + F.avg_pool2d(z, 3).sum(), z),
        "embedding": lambda: gradients(lambda: (F.embedding(ids, e) ** 3).sum(), e),
        "attention": lambda: gradients(attention, q, key, v),
        "extremes": lambda: gradients(lambda: (x.max(1).values ** 2).sum() + x.amin(0).sum(), x),
        "broadcast": lambda: gradients(lambda: ((big + big[0]) ** 2).sum(), big),
        "prod": lambda: gradients(lambda: x.prod(1).sum(), x),
        "bfloat16": lambda: gradients(
            lambda: (x.bfloat16() @ w.bfloat16()).float().pow(2).mean(), x, w
        ),
    }


def main() -> None:
    for name, case in forward_cases().items():
        print("forward", name, digest([case()]))
    for name, case in backward_cases().items():
        print("backward", name, digest(case()))


if __name__ == "__main__":
    main()
