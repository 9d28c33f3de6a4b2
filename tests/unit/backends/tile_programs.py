"""Programs with products in tile registers: prints what each gives, as JSON. Run by
test_llvm_dot_tiles.py with emulated registers and several numbers of threads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np

import rushlight as torch

F = torch.nn.functional


def given(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    rng = np.random.RandomState(5)
    return [torch.tensor(rng.standard_normal(s)).to(dtype) for s in shapes]


def gradients(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x, w, b = (t.clone().requires_grad_() for t in (x, w, b))
    F.gelu(F.linear(x, w, b)).sum().backward()
    return torch.cat([t.grad.reshape(-1).to(x.dtype) for t in (x, w, b)])


PROGRAMS: dict[str, tuple[Callable, list[tuple[int, ...]]]] = {
    "odd": (torch.matmul, [(77, 131), (131, 93)]),
    "left_transposed": (lambda a, b: a.T @ b, [(131, 77), (131, 93)]),
    "right_transposed": (lambda a, b: a @ b.T, [(77, 131), (93, 131)]),
    "batched": (torch.matmul, [(3, 2, 40, 65), (3, 2, 65, 50)]),
    "shared_weight": (torch.matmul, [(3, 20, 65), (65, 50)]),
    "one_row": (F.linear, [(1, 300), (200, 300), (200,)]),
    "vector": (torch.mv, [(90, 70), (70,)]),
    "linear_gelu": (lambda *t: F.gelu(F.linear(*t)), [(64, 96), (80, 96), (80,)]),
    "gelu_of_operand": (lambda a, b: F.gelu(a) @ b, [(64, 50), (50, 40)]),
    "conv": (lambda *t: F.conv2d(*t, padding=1), [(2, 8, 9, 9), (24, 8, 3, 3), (24,)]),
    "gradients": (gradients, [(48, 33), (40, 33), (40,)]),
}


def precisions() -> dict[str, float]:
    """Errors of a float32 product as the program allows them, and 0 where bits are the same."""
    a, b = given(torch.float32, (70, 130), (130, 90))
    exact = a.double() @ b.double()
    product = torch.compile(lambda x, y: x @ y)

    def error(got: torch.Tensor) -> float:
        return ((got.double() - exact).abs().max() / exact.abs().max()).item()

    def differ(x: torch.Tensor, y: torch.Tensor) -> float:
        return (x != y).double().mean().item()

    highest = [a @ b, product(a, b)]
    found = {"highest": max(map(error, highest))}
    waiting = a @ b
    torch.set_float32_matmul_precision("medium")
    found["recorded_before"] = differ(waiting, highest[0])
    medium = a @ b
    found["medium"] = error(medium)
    found["medium_compiled"] = differ(product(a, b), medium)
    found["medium_row"] = differ((a[3:4] @ b)[0], medium[3])
    torch.set_float32_matmul_precision("high")
    high = a @ b
    found["high"] = error(high)
    found["high_compiled"] = differ(product(a, b), high)
    found["high_row"] = differ((a[3:4] @ b)[0], high[3])
    torch.set_float32_matmul_precision("highest")
    found["back"] = differ(a @ b, highest[0]) + differ(product(a, b), highest[1])
    return found


def main() -> None:
    found = {}
    for name, (function, shapes) in PROGRAMS.items():
        operands = given(torch.bfloat16, *shapes)
        got = function(*operands)
        want = function(*(x.double() for x in operands))
        error = ((got.double() - want).abs().max() / want.abs().max()).item()
        digest = hashlib.sha256(got.float().numpy().tobytes()).hexdigest()
        found[name] = {"error": error, "digest": digest}
    whole, row = given(torch.bfloat16, (50, 300), (200, 300))
    same = F.linear(whole, row)[7] == F.linear(whole[7:8], row)[0]
    found["one_of_many"] = {"error": 1.0 - same.double().mean().item(), "digest": ""}
    found["precisions"] = {"error": 0.0, "digest": "", **precisions()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
