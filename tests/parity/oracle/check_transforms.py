"""vmap and second derivatives of the cases on Rushlight: fills the last columns of results.tsv.

In: the folder that generate.py and generate_transforms.py filled. A result of vmap must equal a
loop over its examples; where PyTorch's vmap refuses, ours may refuse too. Derivatives must equal
PyTorch's. Run as: python check_transforms.py FOLDER [--update] [--only REGEX] [--list]
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

import numpy as np  # noqa: E402
import table  # noqa: E402
from check import DEAD, Found, attempt, main  # noqa: E402
from compare import GRADIENT, differs  # noqa: E402
from transforms import forward, function_of, gradient_of, looped, mapped, second  # noqa: E402

import rushlight  # noqa: E402

REFUSALS = (RuntimeError, ValueError, NotImplementedError, TypeError, IndexError)


def check_file(path: str) -> Found:
    rushlight.set_num_threads(1)
    found: Found = {column: [] for column in table.TRANSFORMED}
    for case in pickle.loads(Path(path).read_bytes())["cases"]:
        for column, question in questions(case):
            found[column].append(attempt(question))
    return found


def all_fail(path: str) -> Found:
    found: Found = {column: [] for column in table.TRANSFORMED}
    for case in pickle.loads(Path(path).read_bytes())["cases"]:
        for column, _ in questions(case):
            found[column].append(DEAD)
    return found


def questions(case: dict) -> list[tuple[str, Callable[[], str]]]:
    """(column, what tells what is wrong)"""
    asked: list[tuple[str, Callable[[], str]]] = []
    for way, refused in case.get("vmap", {}).items():
        asked.append(("vmap", lambda way=way, no=refused: wrong_batch(case, way, no)))
        if way == "front" and not refused:
            asked.append(("unlooped", lambda: looping(case)))
    for refused in case.get("vmap_grad", {}).values():
        asked.append(("vmap_grad", lambda no=refused: wrong_gradients(case, no)))
    if "second" in case:
        asked.append(("jvp", lambda: wrong_forward(case)))
        asked.append(("second", lambda: wrong_second(case)))
    return asked


def wrong_batch(case: dict, way: str, refused: str) -> str:
    return _compared(case, function_of(case, rushlight), way, refused, 1.0)


def wrong_gradients(case: dict, refused: str) -> str:
    return _compared(case, gradient_of(case, rushlight), "front", refused, GRADIENT)


def _compared(case: dict, function: Callable, way: str, refused: str, factor: float) -> str:
    warnings.simplefilter("ignore")
    try:
        got = mapped(case, rushlight, function, way)
    except REFUSALS as error:
        if refused and str(error):
            return ""
        raise
    want = looped(case, rushlight, function, way)
    how = "shape" if case["draws"] else case["how"]
    return first_wrong(got, want, how, case["noise"], factor)


def first_wrong(got: list, want: list, how: str, noise: list[float], factor: float) -> str:
    if len(got) != len(want):
        return f"{len(got)} results, want {len(want)}"
    slack = 4 * max(noise, default=0.0)
    found = (differs(a, b, how, slack, factor) for a, b in zip(got, want, strict=True))
    return next((f"result {i}: {wrong}" for i, wrong in enumerate(found) if wrong), "")


def looping(case: dict) -> str:
    """What vmap says that it does for each example."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mapped(case, rushlight, function_of(case, rushlight), "front")
    return next((str(w.message) for w in caught if "each example" in str(w.message)), "")


def known(got: list, want: list) -> list:
    """Ours, with PyTorch's NaN: where it has no derivative, ours may be a number."""
    return [
        a if a is None or b is None or a[1].shape != b[1].shape
        else (a[0], np.where(np.isnan(b[1]), b[1], a[1]))
        for a, b in zip(got, want, strict=True)
    ]  # fmt: skip


def wrong_forward(case: dict) -> str:
    got = known(forward(case, rushlight), case["jvp"])
    return first_wrong(got, case["jvp"], "", [], GRADIENT)


def wrong_second(case: dict) -> str:
    by_vector, by_input = second(case, rushlight)
    wrong = first_wrong(known(by_vector, case["jvp"]), case["jvp"], "", [], GRADIENT)
    got = known(by_input, case["second"])
    return wrong or first_wrong(got, case["second"], "", [], GRADIENT)


if __name__ == "__main__":
    sys.exit(main(check_file, all_fail, table.TRANSFORMED))
