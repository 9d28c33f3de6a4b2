"""Writes the cases of PyTorch's databases of modules and optimizers, one file for each.

In: a folder, a pattern of names. Out: pickles of plain values, read by check.py.
Run by a Python that has torch 2.13 and expecttest:
python generate_stateful.py FOLDER [--only REGEX] [--samples 20]
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import Decoder, Encoder, array_of, dtype_name, find, told
from compare import differs
from stateful import module_gradients, play_module, play_optimizer
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.testing._internal.common_optimizers import optim_db

SAMPLES = 20


def public_name(cls: type) -> str | None:
    names = (f"nn.{cls.__name__}", f"{cls.__module__.removeprefix('torch.')}.{cls.__name__}")
    return next((name for name in names if find(torch, name) is cls), None)


def module_cases(info: ModuleInfo, name: str, most: int) -> Iterator[dict]:
    """Lazy modules are left out: their samples have no input to take sizes from."""
    if info.is_lazy:
        return
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        options = {"device": "cpu", "dtype": torch.float32, "requires_grad": True}
        samples = info.module_inputs_func(info, training=training, **options)
        for sample, _ in zip(samples, range(most), strict=False):
            if sample.forward_input is None:
                continue
            try:
                yield module_case(info.module_cls, name, sample, training)
            except Exception:
                continue  # a sample that PyTorch itself cannot repeat from plain values


def module_case(cls: type, name: str, sample: Any, training: bool) -> dict:
    encode = Encoder(torch)
    make = sample.constructor_input
    torch.manual_seed(3)
    state = cls(*make.args, **make.kwargs).state_dict()
    case: dict = {
        "name": name, "make": (encode(tuple(make.args)), encode(dict(make.kwargs))),
        "call": (encode(tuple(sample.forward_input.args)),
                 encode(dict(sample.forward_input.kwargs))),
        "tensors": encode.tensors, "training": training,
        "state": [(key, dtype_name(value), array_of(value)) for key, value in state.items()],
    }  # fmt: skip
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        decoder = Decoder(torch, case["tensors"], False)
        results.append(told(play_module(case, torch, decoder)[1], torch))
    case["want"] = results[0]
    case["how"] = "shape" if any(map(differs, *results)) else ""  # what draws differs by seed
    torch.manual_seed(1)
    case["grads"], case["after"] = module_gradients(case, torch)
    return case


def module_errors(info: ModuleInfo, name: str) -> Iterator[dict]:
    """Calls that must raise, with the name of the error's type."""
    if info.module_error_inputs_func is None:
        return
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": False}
    for error in info.module_error_inputs_func(info, training=True, **options):
        sample, encode = error.module_error_input, Encoder(torch)
        make, call = sample.constructor_input, sample.forward_input
        call_args = ((), {}) if call is None else (tuple(call.args), dict(call.kwargs))
        yield {
            "name": name, "make": (encode(tuple(make.args)), encode(dict(make.kwargs))),
            "call": tuple(map(encode, call_args)), "tensors": encode.tensors,
            "error": error.error_type.__name__,
        }  # fmt: skip


def optimizer_cases(info: Any) -> Iterator[dict]:
    name = f"optim.{info.optim_cls.__name__}"
    if name == "optim.SparseAdam":  # takes sparse gradients only
        return
    options = [sample.kwargs for sample in info.optim_inputs_func(device="cpu")]
    options += [{**options[-1], way: True} for way in ("foreach", "fused")
                if way in info.supported_impls]  # fmt: skip
    for given in options:
        encode = Encoder(torch)
        case = {
            "name": name, "options": encode(dict(given)), "tensors": encode.tensors,
            "wants_closure": name == "optim.LBFGS", "only_matrices": name == "optim.Muon",
        }  # fmt: skip
        try:
            case["want"] = play_optimizer(case, torch)
        except Exception:
            continue  # an option that needs another device
        yield case


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    np.random.seed(0)
    given.folder.mkdir(parents=True, exist_ok=True)
    for info in module_db:
        name = public_name(info.module_cls)
        if name is not None:
            cases = module_cases(info, name, given.samples)
            write(given, name, "module", cases, module_errors(info, name))
    for info in optim_db:
        name = f"optim.{info.optim_cls.__name__}"
        write(given, name, "optimizer", optimizer_cases(info), iter(()))


def write(
    given: argparse.Namespace, name: str, kind: str, cases: Iterator[dict], errors: Iterator[dict]
) -> None:
    path = given.folder / f"{name}@{kind}@float32.pkl"
    if path.exists() or not re.search(given.only, path.stem):
        return
    data = {"kind": kind, "cases": [*cases], "errors": [*errors]}
    if data["cases"]:
        path.write_bytes(pickle.dumps(data))


if __name__ == "__main__":
    main()
