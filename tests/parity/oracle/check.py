"""Replays the cases on Rushlight, prints a line for each dtype, keeps results.tsv from shrinking.

In: the folder that generate.py filled. Out: exit status 1 when something that passed no longer
does. A worker process runs the ops; one that dies or takes over LIMIT seconds fails in all samples.
Run as: python check.py FOLDER [--update] [--only REGEX] [--list]
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

import table  # noqa: E402
from cases import Decoder, gradients, play, shares_memory, told  # noqa: E402
from compare import GRADIENT, differs  # noqa: E402
from forms import wrong_form  # noqa: E402
from stateful import (  # noqa: E402
    wrong_module,
    wrong_module_error,
    wrong_module_gradient,
    wrong_optimizer,
)
from ties import same_gradients, wrong_results  # noqa: E402

import rushlight  # noqa: E402

LIMIT = 400
SAVED = 25  # files after which the table is written
DEAD = f"dead or over {LIMIT} s"
Found = dict[str, list[str]]  # column -> what is wrong with each sample
Check = Callable[[str], Found]  # of the file of an op, variant and dtype


def check_file(path: str) -> Found:
    warnings.simplefilter("ignore")
    rushlight.set_num_threads(1)
    data = pickle.loads(Path(path).read_bytes())
    found: Found = {column: [] for column in table.REPLAYED}
    if "kind" in data:
        return check_stateful(data, found)
    for case in data["cases"]:
        found["forward"].append(attempt(lambda case=case: wrong_forward(case)))
        if case["grads"]:
            found["gradient"].append(attempt(lambda case=case: wrong_gradient(case)))
        for form in case.get("forms", ()):
            found["forms"].append(attempt(
                lambda case=case, form=form: wrong_form(case, form, rushlight, data["forms"])
            ))  # fmt: skip
        if case.get("shares") is not None:
            found["memory"].append(attempt(lambda case=case: wrong_memory(case)))
    found["errors"] = [wrong_error(case) for case in data["errors"]]
    return found


def check_stateful(data: dict, found: Found) -> Found:
    """Of modules and optimizers; a module's gradients come with its state afterwards."""
    for case in data["cases"]:
        if data["kind"] == "optimizer":
            found["forward"].append(attempt(lambda case=case: wrong_optimizer(case, rushlight)))
            continue
        found["forward"].append(attempt(lambda case=case: wrong_module(case, rushlight)))
        found["gradient"].append(attempt(lambda case=case: wrong_module_gradient(case, rushlight)))
    found["errors"] = [wrong_module_error(case, rushlight) for case in data["errors"]]
    return found


def attempt(question: Callable[[], str]) -> str:
    try:
        return question()
    except Exception as error:  # whatever it is, it is a result of the table
        return f"{type(error).__name__}: {str(error)[:200]}"


def wrong_forward(case: dict) -> str:
    outs = play(case, rushlight, Decoder(rushlight, case["tensors"], False))
    return wrong_results(case, told(outs, rushlight))


def wrong_gradient(case: dict) -> str:
    decoder = Decoder(rushlight, case["tensors"], True)
    _, got = gradients(case, rushlight, decoder)
    how = "shape" if case["how"] == "shape" or case["draws"] else ""
    for i, want in case["grads"].items():
        slack = case["grad_noise"].get(i, 0.0)
        wrong = differs(got.get(i), want, how, slack, GRADIENT)
        if wrong and not same_gradients(case, i, got.get(i), want, slack, GRADIENT):
            return f"gradient of tensor {i}: {wrong}"
    return ""


def wrong_memory(case: dict) -> str:
    decoder = Decoder(rushlight, case["tensors"], False)
    shares = shares_memory(rushlight, decoder, play(case, rushlight, decoder))
    if shares == case["shares"]:
        return ""
    return f"{'shares' if shares else 'does not share'} memory with its input"


def wrong_error(case: dict) -> str:
    try:
        play(case, rushlight, Decoder(rushlight, case["tensors"], False))
    except Exception as error:
        have = type(error).__name__
        return "" if case["error"] in (have, "Exception") else f"{have}: {str(error)[:200]}"
    return f"no error, want {case['error']}"


def check_all(paths: list[Path], check: Check, fail: Check) -> Iterator[tuple[table.Key, Found]]:
    context = multiprocessing.get_context("spawn")
    pool = context.Pool(1)
    for path in paths:
        op, variant, dtype = path.stem.split("@")
        try:
            found = waited_for(pool.apply_async(check, (str(path),)))
        except multiprocessing.TimeoutError:
            found = fail(str(path))
            pool.terminate()
            pool = context.Pool(1)
        yield (op, variant, dtype), found
    pool.terminate()


def waited_for(task: Any) -> Found:
    """The result, within LIMIT seconds in which this process was not held up itself."""
    for _ in range(LIMIT):
        task.wait(1)
        if task.ready():
            return task.get()
    raise multiprocessing.TimeoutError


def all_fail(path: str) -> Found:
    """The worker died or hung: nothing passes."""
    data = pickle.loads(Path(path).read_bytes())
    wrong = DEAD
    return {
        "forward": [wrong] * len(data["cases"]),
        "gradient": [wrong for case in data["cases"] if case["grads"]],
        "forms": [wrong for case in data["cases"] for _ in case.get("forms", ())],
        "memory": [wrong for case in data["cases"] if case.get("shares") is not None],
        "errors": [wrong] * len(data["errors"]),
    }


def counts_of(found: Found) -> table.Counts:
    return {
        column: (wrongs.count(""), len(wrongs)) for column, wrongs in found.items() if wrongs
    }  # fmt: skip


def list_wrong(key: table.Key, found: Found) -> None:
    """Where an op does not pass everywhere, with the first thing that is wrong."""
    for column, wrongs in found.items():
        first: Any = next(filter(None, wrongs), None)
        if first:
            passed = f"{wrongs.count('')}/{len(wrongs)}"
            print(" ".join(filter(None, key)), column, passed, first, sep="  ", flush=True)


def main(check: Check, fail: Check, columns: tuple[str, ...]) -> int:
    """Check the files of a folder in these columns of the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    paths = [p for p in sorted(given.folder.glob("*.pkl")) if re.search(given.only, p.stem)]
    new: dict[table.Key, table.Counts] = {}
    lost: dict[table.Key, str] = {}
    for number, (key, found) in enumerate(check_all(paths, check, fail), 1):
        if any(found.values()):  # PyTorch could tell a sample of it in plain values
            new[key] = counts_of(found)
        if given.list:
            list_wrong(key, found)
        if number % SAVED == 0 or number == len(paths):
            lost = keep(new, columns, given.update)
    print(*table.summary(new), sep="\n")
    print(*(lost.values() or ["nothing that passed is lost"]), sep="\n")
    return 1 if lost else 0


def keep(
    new: dict[table.Key, table.Counts], columns: tuple[str, ...], update: bool
) -> dict[table.Key, str]:
    """What is lost; the rest of the counts goes into the table."""
    old = table.read()
    lost = table.lost(old, new, columns)
    if update:
        kept = {key: counts for key, counts in new.items() if key not in lost}
        joined = table.joined(old, kept, columns)
        table.write(joined)
        table.PAGE.write_text(table.page(joined))
    return lost


if __name__ == "__main__":
    sys.exit(main(check_file, all_fail, table.REPLAYED))
