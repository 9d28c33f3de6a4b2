"""What the programs of this folder share: weights from a seed, and records of what they computed.

A program is a file `program_*.py` with functions `case_*`, each of which takes a `Record` and puts
numbers into it. It says `import torch` and knows nothing of Rushlight, so the same file makes the
golden values on PyTorch and is checked on Rushlight.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

KEPT = 24  # values of a tensor that are stored, evenly spread


def generator(*parts: object) -> np.random.Generator:
    """A generator for this use, whatever else was drawn."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def numbers(*shape: int, seed: object = 0, scale: float = 1.0) -> Any:
    """A float32 tensor of normal numbers."""
    import torch

    values = generator("numbers", shape, seed).standard_normal(shape).astype(np.float32) * scale
    return torch.from_numpy(np.ascontiguousarray(values))


def integers(high: int, *shape: int, seed: object = 0, low: int = 0) -> Any:
    """An int64 tensor."""
    import torch

    return torch.from_numpy(generator("integers", shape, seed).integers(low, high, shape))


def fill(model: Any, scale: float = 0.2) -> Any:
    """Give every parameter and buffer of numbers values from its name; gives the model."""
    import torch

    with torch.no_grad():
        for name, value in model.named_parameters():
            drawn = generator(name, tuple(value.shape)).standard_normal(tuple(value.shape))
            is_gain = value.dim() == 1 and name.endswith("weight")
            shrink = (
                scale if value.dim() < 2 else scale / np.sqrt(value.numel() / value.shape[0]) * 2
            )
            found = np.asarray(drawn * shrink + (1.0 if is_gain else 0.0))
            value.copy_(torch.from_numpy(found.astype(np.float32)).to(value.dtype))
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):
                drawn = generator(name).standard_normal(tuple(value.shape)) * 0.1
                value.copy_(torch.from_numpy(drawn.astype(np.float32)))
            if name.endswith("running_var"):
                drawn = generator(name).random(tuple(value.shape)) + 0.5
                value.copy_(torch.from_numpy(drawn.astype(np.float32)))
    return model


def declare_torchvision() -> None:
    """Let torchvision's Python part import on a PyTorch that cannot load its compiled operators."""
    import torch

    signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", signature)


class Record:
    """What a case computed: name -> {"shape", "values", "norm"}."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def put(self, name: str, value: Any) -> None:
        """Keep a tensor, a number or a list of numbers."""
        if hasattr(value, "detach"):
            value = value.detach().to("cpu").double() if value.is_floating_point() else value
            value = value.tolist()
        array = np.asarray(value, np.float64)
        flat = array.reshape(-1)
        at = np.unique(np.linspace(0, max(flat.size - 1, 0), min(KEPT, flat.size)).astype(int))
        self.found[name] = {
            "shape": list(array.shape),
            "values": [float(f"{v:.9g}") for v in flat[at]],
            "norm": float(f"{np.sqrt(np.square(flat).sum()):.9g}"),
        }

    def gradients(self, model: Any, names: Iterable[str] | None = None) -> None:
        """Keep the gradients of a model: the norm of all, and some in full."""
        grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        chosen = list(names) if names is not None else [*list(grads)[:2], *list(grads)[-2:]]
        for name in chosen:
            self.put(f"grad {name}", grads[name])
        norms = {name: float(grad.double().norm()) for name, grad in grads.items()}
        self.put("grad norms", list(norms.values()))


def differences(
    found: dict[str, Any], golden: dict[str, Any], rtol: float, atol: float
) -> list[str]:
    """What differs from the golden values, one line each."""
    lines = [f"{name}: missing" for name in golden if name not in found]
    lines += [f"{name}: new" for name in found if name not in golden]
    for name in golden.keys() & found.keys():
        want, have = golden[name], found[name]
        if want["shape"] != have["shape"]:
            lines.append(f"{name}: shape {have['shape']}, PyTorch {want['shape']}")
            continue
        a, b = np.array(have["values"]), np.array(want["values"])
        # An error is compared with the size of the tensor's values, not of one of them.
        size = want["norm"] / max(np.sqrt(np.prod(want["shape"])), 1)
        worst = float(np.abs(a - b).max(initial=0.0))
        close = np.allclose(a, b, rtol=rtol, atol=atol + rtol * size, equal_nan=True)
        norm = abs(have["norm"] - want["norm"]) <= rtol * want["norm"] + atol
        if not close or not norm:
            lines.append(
                f"{name}: worst difference {worst:.3g} at size {size:.3g}, norms {have['norm']:.6g}"
                f" and {want['norm']:.6g}"
            )
    return sorted(lines)
