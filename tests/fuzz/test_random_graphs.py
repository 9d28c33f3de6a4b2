"""Random graphs: compiled = interpreted, and the same bits however they are compiled.

A failing case prints its seed and the smallest graph found that fails. Run more with
`python tests/fuzz/test_random_graphs.py FIRST COUNT [CHECK...]` (it prints failures and goes on;
"all" stands for every check, none for a few that depend on the seed).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence

import fuzz_graphs
import numpy as np
import pytest
from fuzz_run import (
    Check,
    Setup,
    difference,
    failure,
    listing,
    read_leaf,
    reference,
    run,
    run_as_seen_first,
    run_in_pieces,
    same_bits,
    shrink,
    tolerance_of,
    with_views,
)

import rushlight.ops as O
from rushlight.engine.signature import record
from rushlight.ir.node import Node, topological


def check_values(seed: int, target: str) -> Check:
    """Compiled = interpreted."""

    def check(roots: Sequence[Node]) -> str:
        got = run(roots, Setup(target))
        for number, (a, b) in enumerate(zip(got, reference(roots), strict=True)):
            wrong = difference(a, b, tolerance_of(roots[number]))
            if wrong:
                return f"root {number}: {wrong}"
        return ""

    return check


def against_plain(target: str, other: Callable[[Sequence[Node]], list[np.ndarray]]) -> Check:
    """Another way of computing the roots gives the bits of the plain way."""
    return lambda roots: same_bits(other(roots), run(roots, Setup(target)))


def check_threads(seed: int, target: str) -> Check:
    return against_plain(target, lambda roots: run(roots, Setup(target, threads=2)))


def check_alone(seed: int, target: str) -> Check:
    """Every node flushed alone."""
    return against_plain(
        target, lambda roots: run_in_pieces(roots, set(topological(list(roots))), Setup(target))
    )


def check_flushes(seed: int, target: str) -> Check:
    """Flushed at random nodes."""

    def pieces(roots: Sequence[Node]) -> list[np.ndarray]:
        rng = random.Random(f"flush {seed}")
        cuts = {n for n in topological(list(roots)) if rng.random() < 0.25}
        return run_in_pieces(roots, cuts, Setup(target))

    return against_plain(target, pieces)


def check_symbolic(seed: int, target: str) -> Check:
    """All sizes, or some, are variables of the program."""

    def symbolic(roots: Sequence[Node]) -> list[np.ndarray]:
        rng = random.Random(f"vary {seed}")
        share = rng.choice((1.0, 0.5))
        sizes = sorted(set(record(list(roots)).ints))
        vary = frozenset(n for n in sizes if rng.random() < share)
        return run(roots, Setup(target, vary, threads=rng.choice((1, 2))))

    return against_plain(target, symbolic)


def check_views(seed: int, target: str) -> Check:
    """Inputs are read through views."""
    return against_plain(
        target,
        lambda roots: run(with_views(roots, random.Random(f"views {seed}"), O), Setup(target)),
    )


def check_donated(seed: int, target: str) -> Check:
    """Inputs may be overwritten."""
    return against_plain(target, lambda roots: run(roots, Setup(target, donate=True)))


def check_donated_symbolic(seed: int, target: str) -> Check:
    def way(roots: Sequence[Node]) -> list[np.ndarray]:
        vary = frozenset(record(list(roots)).ints)
        return run(roots, Setup(target, vary, donate=True, threads=2))

    return against_plain(target, way)


def check_inputs_kept(seed: int, target: str) -> Check:
    """A program that was given nothing away leaves its inputs as they are."""

    def check(roots: Sequence[Node]) -> str:
        leaves = [n for n in topological(list(roots)) if n.leaf == "buffer"]
        before = [read_leaf(leaf).tobytes() for leaf in leaves]
        run(roots, Setup(target))
        after = [read_leaf(leaf).tobytes() for leaf in leaves]
        return "" if before == after else "an input has changed"

    return check


def check_interpreted(seed: int, target: str) -> Check:
    """The interpreter of tile programs gives the bits of native code."""
    return against_plain(target, lambda roots: run(roots, Setup("interp")))


def check_other_sizes(seed: int, target: str) -> Check:
    """A program compiled when one set of sizes was seen, run with another."""

    def check(roots: Sequence[Node]) -> str:
        first, second = record(list(roots)), record(fuzz_graphs.generate(seed, 1).roots)
        if first.key != second.key:
            return ""  # a size became 0 or 1, or this is a smaller graph
        want = run(second.roots, Setup(target))
        return same_bits(run_as_seen_first(first, second, target), want)

    return check


CHECKS = {
    "values": check_values,
    "threads": check_threads,
    "alone": check_alone,
    "flushes": check_flushes,
    "symbolic": check_symbolic,
    "views": check_views,
    "donated": check_donated,
    "donated_symbolic": check_donated_symbolic,
    "inputs_kept": check_inputs_kept,
    "other_sizes": check_other_sizes,
    "interpreted": check_interpreted,
}


def target_of(seed: int) -> str:
    return random.Random(f"target {seed}").choice(("host", "host", "avx2", "generic"))


def problems(seed: int, names: Sequence[str]) -> list[str]:
    """Reports of the checks that fail for the graph of a seed."""
    graph = fuzz_graphs.generate(seed)
    found = []
    for name in names:
        check = CHECKS[name](seed, target_of(seed))
        wrong = failure(check, graph.roots)
        if wrong:
            small = shrink(check, graph.roots)
            found.append(
                f"seed {seed}, {name}, {target_of(seed)}: {wrong}\n"
                f"smaller: {failure(check, small)}\n{listing(small)}"
            )
    return found


def some_checks(seed: int) -> list[str]:
    return ["values", *random.Random(f"checks {seed}").sample(list(CHECKS)[1:], 2)]


@pytest.mark.parametrize("seed", range(16))
def test_random_graph_gives_the_same_bits_every_way(seed: int) -> None:
    assert not (found := problems(seed, some_checks(seed))), "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_graph_passes_all_checks(seed: int) -> None:
    assert not (found := problems(seed, list(CHECKS))), "\n".join(found)


def main(first: int, count: int, names: Sequence[str]) -> None:
    bad = 0
    for seed in range(first, first + count):
        if seed % 100 == 0:
            print(f"at seed {seed}", flush=True)
        for report in problems(seed, names or some_checks(seed)):
            bad += 1
            print(report, flush=True)
            print("-" * 80, flush=True)
    print(f"{count} seeds from {first}: {bad} failures", flush=True)


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        list(CHECKS) if sys.argv[3:] == ["all"] else sys.argv[3:],
    )
