"""Replays ONNX's operator cases on Rushlight and counts: passed, wrong, not translated.

In: the file that generate.py wrote. Out: the counts; `--list` names what is wrong and which
operators have no translation. Every operator is a few calls of Rushlight's public functions.
Run as: python replay.py FILE [--list] [--only REGEX]
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

import elementwise  # noqa: E402
import layers  # noqa: E402
import quantized  # noqa: E402
import sequences  # noqa: E402
import shapes  # noqa: E402

import rushlight as torch  # noqa: E402

ROUNDING = {"bfloat16": 2**-6, "float16": 2**-9}  # of steps that ONNX's reference rounds one by one
BITS = ("int2", "uint2", "int4", "uint4")  # PyTorch has the names, but no tensors of them
TABLE = elementwise.TABLE | shapes.TABLE | layers.TABLE | quantized.TABLE | sequences.TABLE


def is_narrow(array: np.ndarray) -> bool:
    """A dtype that numpy itself lacks."""
    return array.dtype.type.__module__.startswith("ml_dtypes")


def tensor_of(array: np.ndarray) -> Any:
    """A tensor; dtypes that numpy lacks come through float32."""
    kind = getattr(torch, array.dtype.name, None)
    if kind is None or array.dtype.name in BITS:
        raise NotImplementedError(f"dtype {array.dtype.name}")
    if is_narrow(array):
        return torch.from_numpy(array.astype(np.float32)).to(kind)
    return torch.from_numpy(np.array(array))


def run(case: dict) -> list[Any]:
    """The outputs of the case's graph."""
    values = {name: tensor_of(array) for name, array in case["values"].items()}
    values[""] = None
    for op, inputs, outputs, attributes in case["nodes"]:
        if op not in TABLE:
            raise NotImplementedError(op)
        options = dict(attributes)
        if op == "Split":
            options["outputs"] = len(outputs)
        found = TABLE[op](*[values[name] for name in inputs], **options)
        found = found if isinstance(found, tuple | list) else (found,)
        if any(outputs[len(found) :]):
            raise NotImplementedError(f"{op} with {len(outputs)} outputs")
        values.update(zip(outputs, found, strict=False))
    return [values[name] for name in case["outputs"]]


def wrong(case: dict) -> str:
    rtol, atol = case["near"]
    for got, want in zip(run(case), case["want"], strict=True):
        if str(got.dtype).rpartition(".")[2] != want.dtype.name:
            return f"dtype {got.dtype}, want {want.dtype.name}"
        if tuple(got.shape) != want.shape:
            return f"shape {tuple(got.shape)}, want {want.shape}"
        narrow = is_narrow(want)
        rtol = max(rtol, ROUNDING.get(want.dtype.name, 0.0))
        a = (got.float() if narrow else got).numpy()
        b = want.astype(np.float32) if narrow else want
        if not np.allclose(a, b, rtol=rtol, atol=max(atol, 1e-6), equal_nan=True):
            return "values differ"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for case in pickle.loads(given.file.read_bytes()):
        if not re.search(given.only, case["name"]):
            continue
        try:
            problem = case.get("unsuited") or wrong(case)
            kind = "not told" if "unsuited" in case else "wrong" if problem else "passed"
        except NotImplementedError as error:
            kind, problem = "not translated", str(error)
            missing[problem] += 1
        except Exception as error:  # whatever it is, it is a result
            kind, problem = "wrong", f"{type(error).__name__}: {str(error)[:150]}"
        counts[kind] += 1
        if given.list and kind == "wrong":
            print(case["name"], [n[0] for n in case["nodes"]][:3], problem, sep="  ", flush=True)
    if given.list:
        print("not translated:", ", ".join(f"{name} {n}" for name, n in missing.most_common()))
    print(f"ONNX operator cases: {dict(counts)} of {counts.total()}")


if __name__ == "__main__":
    main()
