"""Writes the cases of PyTorch's operator database, one file for each op, variant and dtype.

In: a folder, dtypes, how many samples of each op. Out: pickles of plain values, read by check.py.
Run by a Python that has torch 2.13 and expecttest: python generate.py FOLDER float32,int64
"""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from cases import Unsuited, differs, encode, find, run
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 20


def public_name(op: Any) -> str | None:
    """The name under which a program calls the op, if the op is that very function."""
    return next((n for n in (op.name, f"Tensor.{op.name}") if find(torch, n) is op.op), None)


def cases_of(op: Any, name: str, dtype: Any) -> list[dict]:
    inexact = dtype.is_floating_point or dtype.is_complex
    grad = op.supports_autograd and inexact and dtype in op.backward_dtypes
    torch.manual_seed(0)
    cases = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        if len(cases) >= SAMPLES:
            break
        try:
            args = encode((sample.input, *sample.args), torch)
            case = {"name": name, "args": args, "kwargs": encode(dict(sample.kwargs), torch)}
            cases.append(finished(case, grad))
        except (Unsuited, RuntimeError, TypeError):
            continue  # a sample that PyTorch itself cannot repeat from plain values
    return cases


def finished(case: dict, grad: bool) -> dict:
    """With PyTorch's results; `loose` where two seeds give two results."""
    torch.manual_seed(1)
    case["out"], _ = run(case, torch, False)
    torch.manual_seed(2)
    again, _ = run(case, torch, False)
    case["loose"] = any(differs(a, b, False) for a, b in zip(again, case["out"], strict=True))
    case["grads"] = run(case, torch, True)[1] if grad else []
    return case


def main(folder: str, dtypes: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for op in op_db:
        name = public_name(op)
        for dtype in dtypes.split(","):
            path = target / f"{op.name}@{op.variant_test_name}@{dtype}.pkl"
            if name is None or path.exists() or getattr(torch, dtype) not in op.dtypes:
                continue
            path.write_bytes(pickle.dumps(cases_of(op, name, getattr(torch, dtype))))


if __name__ == "__main__":
    main(*sys.argv[1:])
