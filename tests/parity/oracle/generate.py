"""Writes the cases of PyTorch's operator database, one file for each op, variant and dtype.

In: a folder, dtypes, a pattern of names. Out: pickles of plain values, read by check.py.
Run by a Python that has torch 2.13 and expecttest:
python generate.py FOLDER float32,int64 [--only REGEX] [--samples 20]
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.testing._internal.common_methods_invocations as database
from cases import Decoder, Encoder, Unsuited, find, gradients, play, shares_memory, told
from compare import differs, noise
from forms import FORMS, suits, wrong_form
from torch.overrides import TorchFunctionMode, resolve_name

SAMPLES = 20
FIRST = 4  # samples of each op whose other forms and whose memory are looked at
# Values of no meaning; factors that are unique but for a sign, or not at all.
UNSET = set(
    "empty empty_like new_empty empty_strided new_empty_strided empty_permuted resize_ resize_as_ "
    "linalg.eig linalg.eigvals lobpcg".split()
)
WIDER = {
    "float32": "float64", "bfloat16": "float64", "float16": "float64", "complex64": "complex128",
}  # fmt: skip
SIGNS = set("svd linalg.svd linalg.eigh qr linalg.qr geqrf pca_lowrank svd_lowrank".split())


class Recorder(TorchFunctionMode):
    """What an op of the database calls: the public functions, with their arguments."""

    def __init__(self, encode: Encoder) -> None:
        super().__init__()
        self.encode, self.calls = encode, []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = resolve_name(func) or f"{func.__module__}.{func.__name__}"
        trees = self.encode(tuple(args)), self.encode(dict(kwargs))
        found = func(*args, **kwargs)
        if not name.endswith(".__get__") or isinstance(found, torch.Tensor):
            name = f"ops.{name}" if name.startswith("aten.") else name.removeprefix("torch.")
            self.calls.append((name, *trees))
            self.encode.results(len(self.calls) - 1, found)
        return found


def public_name(op: Any) -> str | None:
    """The name under which a program calls the op, if the op is that very function."""
    names = (op.name.removeprefix("torch."), f"Tensor.{op.name}")
    return next((name for name in names if find(torch, name) is op.op), None)


def recorded(op: Any, sample: Any) -> dict:
    """The sample as a case without results."""
    encode = Encoder(torch)
    args = (sample.input, *sample.args)
    trees = encode(args), encode(dict(sample.kwargs))
    name = public_name(op)
    if name is not None and op.name not in SIGNS:
        return {"calls": [(name, *trees)], "tensors": encode.tensors, "out": None}
    with Recorder(encode) as recorder:
        found = op.op(*args, **sample.kwargs)
        if op.name in SIGNS and sample.output_process_fn_grad is not None:
            found = sample.output_process_fn_grad(found)
    if not recorder.calls:
        raise Unsuited("no public function is called")
    out = encode(found)
    named = "result" in str(out)  # a plain number came from the last call
    return {
        "calls": recorder.calls, "tensors": encode.tensors, "out": out if named else None,
    }  # fmt: skip


def run(case: dict, dtype: tuple[str, str] = ("", "")) -> list[tuple]:
    return told(play(case, torch, Decoder(torch, case["tensors"], False, dtype)), torch)


def finish(case: dict, op: Any, grad: bool, dtype: str) -> dict:
    """With PyTorch's results, and how they are to be compared."""
    torch.manual_seed(1)
    state = torch.get_rng_state()
    case["want"] = run(case)
    case["draws"] = not torch.equal(state, torch.get_rng_state())
    case["how"] = "shape" if op.name in UNSET else "size" if op.name in SIGNS else ""
    for seed in range(2, 8 if case["draws"] else 3):
        torch.manual_seed(seed)
        if any(differs(a, b) for a, b in zip(run(case), case["want"], strict=True)):
            case["how"] = "shape"
    case["grads"], case["grad_noise"] = {}, {}
    if grad:
        torch.manual_seed(1)
        decoder = Decoder(torch, case["tensors"], True)
        case["outs_with_grad"], case["grads"] = gradients(case, torch, decoder)
    case["noise"] = [0.0] * len(case["want"])
    if dtype in WIDER and case["how"] != "shape":
        add_noise(case, dtype)
    return case


def add_noise(case: dict, dtype: str) -> None:
    """PyTorch's own rounding: the distance from its results in double precision."""
    wide = (dtype, WIDER[dtype])
    try:
        exact = run(case, wide)
        decoder = Decoder(torch, case["tensors"], True, wide)
        grads = gradients(case, torch, decoder)[1] if case["grads"] else {}
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return  # no such form
    case["noise"] = [noise(a, b) for a, b in zip(case["want"], exact, strict=True)]
    case["grad_noise"] = {i: noise(g, grads.get(i)) for i, g in case["grads"].items()}


def add_forms(case: dict, op: Any) -> None:
    """The forms that PyTorch has and that give its result; does an output share memory?"""
    names = form_names(op)
    case["forms"], case["shares"] = [], None
    if case["how"] == "shape":
        return
    decoder = Decoder(torch, case["tensors"], False)
    case["shares"] = shares_memory(torch, decoder, play(case, torch, decoder))
    if len(case["calls"]) != 1 or public_name(op) is None:
        return
    for form in FORMS:
        try:
            fits = suits(case, form, torch, names)
            if fits and not wrong_form(case, form, torch, names):
                case["forms"].append(form)
        except (RuntimeError, TypeError, AttributeError, ValueError, NotImplementedError):
            continue


def form_names(op: Any) -> dict[str, Any]:
    def name(function: Any) -> str | None:
        return getattr(function, "__name__", None)

    return {"method": name(op.method_variant), "inplace": name(op.inplace_variant),
            "out": op.supports_out}  # fmt: skip


def cases_of(op: Any, dtype: Any, most: int) -> list[dict]:
    inexact = dtype.is_floating_point or dtype.is_complex
    grad = op.supports_autograd and inexact and dtype in op.backward_dtypes
    cases: list[dict] = []
    torch.manual_seed(0)
    np.random.seed(0)
    for sample, _ in zip(
        op.sample_inputs("cpu", dtype, requires_grad=grad), range(most), strict=False
    ):
        try:
            case = finish(recorded(op, sample), op, grad, str(dtype).rpartition(".")[2])
            if len(cases) < FIRST:
                add_forms(case, op)
        except Exception:
            continue  # a sample that PyTorch itself cannot repeat from plain values
        cases.append(case)
    return cases


def errors_of(op: Any, most: int) -> list[dict]:
    """Calls that must raise, with the name of the error's type."""
    name = public_name(op)
    if op.error_inputs_func is None or name is None:
        return []
    found: list[dict] = []
    try:
        given: Iterable[Any] = list(op.error_inputs("cpu"))
    except Exception:  # some need another device
        return []
    for error in given[:most]:
        sample, encode = error.sample_input, Encoder(torch)
        try:
            args = encode((sample.input, *sample.args))
            calls = [(name, args, encode(dict(sample.kwargs)))]
        except (Unsuited, RuntimeError):
            continue
        case = {"calls": calls, "tensors": encode.tensors, "out": None}
        case["error"] = getattr(error.error_type, "__name__", "Exception")
        try:
            run(case)
        except Exception:
            found.append(case)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("dtypes")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # An op that draws is called as it is; the wrapper would set and read generator states.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    given.folder.mkdir(parents=True, exist_ok=True)
    for op in database.op_db:
        for dtype in given.dtypes.split(","):
            path = given.folder / f"{op.name}@{op.variant_test_name}@{dtype}.pkl"
            skip = path.exists() or getattr(torch, dtype) not in op.dtypes
            if skip or not re.search(given.only, f"{op.name}@{op.variant_test_name}"):
                continue
            data = {
                "cases": cases_of(op, getattr(torch, dtype), given.samples),
                "errors": errors_of(op, given.samples) if dtype == "float32" else [],
                "forms": form_names(op),
            }
            path.write_bytes(pickle.dumps(data))


if __name__ == "__main__":
    main()
