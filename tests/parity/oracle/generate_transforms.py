"""Adds to the cases what PyTorch's vmap and its second derivatives give.

In: the folder that generate.py filled. Out: in some cases of float32 and int64 which ways of vmap
PyTorch refuses, in some of float64 its second derivatives.
Run as: python generate_transforms.py FOLDER [--only REGEX]
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from transforms import WAYS, asking, function_of, gradient_of, looped, mapped, second

SAMPLES = 3


def picked(cases: list[dict]) -> list[dict]:
    """Some samples: the first, the last, and those between."""
    suited = [case for case in cases if case["tensors"]]
    steps = max(1, (len(suited) - 1) // (SAMPLES - 1))
    return suited[::steps][:SAMPLES]


def add_batches(case: dict) -> None:
    """The level at which a loop works; for each way what PyTorch's vmap raises ('': nothing)."""
    function = function_of(case, torch)
    for level in range(3):
        case["level"] = level
        try:
            if not looped(case, torch, function, "front"):
                return
        except Exception:
            continue
        case["vmap"] = refusals(case, function, list(WAYS)[: 2 if len(case["tensors"]) < 2 else 4])
        if case["grads"]:
            case["vmap_grad"] = refusals(case, gradient_of(case, torch), ["front"])
        return


def refusals(case: dict, function: Callable, ways: list[str]) -> dict[str, str]:
    return {way: refusal(case, function, way) for way in ways if loops(case, function, way)}


def loops(case: dict, function: Callable, way: str) -> bool:
    try:
        looped(case, torch, function, way)
    except Exception:  # the examples do not go together
        return False
    return True


def refusal(case: dict, function: Callable, way: str) -> str:
    try:
        mapped(case, torch, function, way)
    except Exception as error:
        return type(error).__name__
    return ""


def add_second(case: dict) -> None:
    if not case["grads"] or not asking(case) or case["draws"] or case["how"]:
        return
    try:
        case["jvp"], case["second"] = second(case, torch)
    except Exception:
        return  # PyTorch has no second derivative


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for path in sorted(given.folder.glob("*@*@*.pkl")):
        dtype = path.stem.rpartition("@")[2]
        add = {"float32": add_batches, "int64": add_batches, "float64": add_second}.get(dtype)
        if add is None or not re.search(given.only, path.stem):
            continue
        data = pickle.loads(path.read_bytes())
        if "kind" in data or data.get("transforms"):
            continue
        for case in picked(data["cases"]):
            add(case)
        data["transforms"] = True
        path.with_suffix(".new").write_bytes(pickle.dumps(data))
        path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    main()
