"""Replays the cases on Rushlight, prints a summary, and keeps results.tsv from getting worse.

In: the folder that generate.py filled. Out: exit status 1 when an op that passed no longer does.
A worker process runs the ops; one that dies or takes over LIMIT seconds counts as a failure.
Run as: python check.py FOLDER [--update] [--only REGEX]
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import pickle
import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from cases import differs, find, run  # noqa: E402

import rushlight  # noqa: E402

TABLE = Path(__file__).with_name("results.tsv")
LIMIT = 120
Key = tuple[str, str, str]


def state(found: list[str]) -> str:
    """'pass', 'part', 'fail' or 'missing' of all samples; '-' where there are none."""
    if not found:
        return "-"
    if set(found) == {"pass"}:
        return "pass"
    return "part" if "pass" in found else "missing" if set(found) == {"missing"} else "fail"


def check_file(path: str) -> tuple[str, str, str]:
    """Forward state, gradient state, the first thing that is wrong."""
    warnings.simplefilter("ignore")
    forward, backward, first = [], [], ""
    for case in pickle.loads(Path(path).read_bytes()):
        for grad, into in ((False, forward), (True, backward)):
            if grad and not case["grads"]:
                continue
            wrong = _try(case, grad)
            into.append(wrong if wrong in ("", "missing") else "fail")
            into[-1] = into[-1] or "pass"
            first = first or wrong
    return state(forward), state(backward), first


def _try(case: dict, grad: bool) -> str:
    if find(rushlight, case["name"]) is None:
        return "missing"
    try:
        out, grads = run(case, rushlight, grad)
    except (NotImplementedError, AttributeError) as error:
        return "missing" if "not supported" in str(error) else f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever it is, it is a result of the table
        return f"{type(error).__name__}: {error}"
    got, want = (grads, case["grads"]) if grad else (out, case["out"])
    if len(got) != len(want):
        return f"{len(got)} results, want {len(want)}"
    pairs = zip(got, want, strict=True)
    return next(
        filter(None, (differs(a, b, case["loose"], 5 if grad else 1) for a, b in pairs)), ""
    )


def read_table() -> dict[Key, tuple[str, str]]:
    rows = (
        [line.split("\t") for line in TABLE.read_text().splitlines()[1:]] if TABLE.exists() else []
    )
    return {(r[0], r[1], r[2]): (r[3], r[4]) for r in rows}


def write_table(table: dict[Key, tuple[str, str]]) -> None:
    lines = ["op\tvariant\tdtype\tforward\tgradient"]
    lines += ["\t".join((*key, *table[key])) for key in sorted(table)]
    TABLE.write_text("\n".join(lines) + "\n")


def check_all(paths: list[Path]) -> dict[Key, tuple[str, str, str]]:
    found: dict[Key, tuple[str, str, str]] = {}
    context = multiprocessing.get_context("spawn")
    pool = context.Pool(1)
    for path in paths:
        op, variant, dtype = path.stem.split("@")
        try:
            found[op, variant, dtype] = pool.apply_async(check_file, (str(path),)).get(LIMIT)
        except multiprocessing.TimeoutError:
            found[op, variant, dtype] = ("fail", "fail", f"dead or over {LIMIT} s")
            pool.terminate()
            pool = context.Pool(1)
    pool.terminate()
    return found


def worse(old: dict[Key, tuple[str, str]], found: dict[Key, Any]) -> list[str]:
    """Ops that passed and do not."""
    return [
        f"{' '.join(key)}: {what} was pass, is {found[key][i]}: {found[key][2]}"
        for key in sorted(old.keys() & found.keys())
        for i, what in enumerate(("forward", "gradient"))
        if old[key][i] == "pass" and found[key][i] not in ("pass", "-")
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    paths = [p for p in sorted(given.folder.glob("*.pkl")) if re.search(given.only, p.stem)]
    found = check_all(paths)
    for dtype in sorted({key[2] for key in found}):
        for i, what in enumerate(("forward", "gradient")):
            counts = collections.Counter(v[i] for k, v in found.items() if k[2] == dtype)
            counts.pop("-", None)
            print(f"{dtype:9s} {what:9s} {counts['pass']:4d} of {sum(counts.values()):4d}", *(
                f"{name} {counts[name]}" for name in ("part", "fail", "missing")))  # fmt: skip
    old = read_table()
    lost = worse(old, found)
    print(*(lost or ["nothing that passed is lost"]), sep="\n")
    if given.update and not lost:
        write_table(old | {key: value[:2] for key, value in found.items()})
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
