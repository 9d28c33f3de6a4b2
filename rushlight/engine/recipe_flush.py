"""A flush together with nodes that are known only as a recipe: they need not be made.

In: a recipe (ir/recipe.py) and the nodes that its slots stand for. Out: its outputs as leaves in
memory; everything else that waits is computed by the same program, as by any flush. None, with
nothing done, where the nodes must be made after all.

The first time the nodes are made and recorded with the rest, and what the program reads and gives is
noted as places: in the recording of the rest, among the recipe's fixed nodes and numbers. From then
on the recording of the rest, the recipe and what may be overwritten say all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from rushlight.base.config import config
from rushlight.engine import origin, realize, watch
from rushlight.engine.capture import open_session
from rushlight.engine.failures import RunFailed, any_failed
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.live import WAITING
from rushlight.engine.programs import Program
from rushlight.engine.realize import LOCK, PENDING, find_donated, run_program, site_text, wanted
from rushlight.engine.signature import Recording, record
from rushlight.engine.undo import RISK, forget_changes
from rushlight.ir.node import Node, buffer_node
from rushlight.ir.recipe import Recipe

MOST_KNOWN = 256
_serial = attrgetter("serial")


@dataclass(frozen=True)
class Known:
    """cache    the programs that it was found in
    inputs   of the program: position in the recording, or a node that is always the same
    numbers  position in the recording, or a number of the recipe
    results  (root, -1) or (-1, output) for each result, as they share them
    """

    cache: Any
    program: Program
    values: np.ndarray
    inputs: list[int | Node]
    numbers: list[int | Callable[[Sequence[Node]], Node]]
    results: list[list[tuple[int, int]]]


_KNOWN: dict[tuple, Known] = {}


def flush_with(recipe: Recipe, values: Sequence[Node]) -> list[Node] | None:
    """The recipe's outputs over these values."""
    if open_session() is not None or origin.STATE.on:
        return None
    with LOCK:
        if any_failed():
            return None
        roots, kept = wanted(())
        recording = record([*roots, *values])
        donated = find_donated(recording, kept)
        key = (
            recording.key, recording.ints, len(roots), donated, recipe, config.backend,
            watch.program_family(),
        )  # fmt: skip
        known = _KNOWN.get(key)
        if known is None or known.cache is not realize.programs():
            known = _learn(recipe, values, roots, recording, donated)
            if known is None:
                return None
            if len(_KNOWN) >= MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = known
        return _run(known, recipe, values, roots, recording)


def _run(
    known: Known, recipe: Recipe, values: Sequence[Node], roots: list[Node], recording: Recording
) -> list[Node] | None:
    order = recording.order
    inputs = [
        (order[place] if place.__class__ is int else place).buffer  # type: ignore[index,union-attr]
        for place in known.inputs
    ]
    numbers = [
        (order[place] if place.__class__ is int else place(values)).attrs[0]  # type: ignore[index,operator]
        for place in known.numbers
    ]
    outputs: list[Any] = [None] * len(recipe.outputs)
    with Uninterrupted(bool(known.program.plan.meta["reuse"])):
        try:
            buffers = run_program(known.program, known.values, inputs, numbers)
        except RunFailed:
            return None  # the ordinary way says what failed
        del inputs
        for buffer, uses in zip(buffers, known.results, strict=True):
            leaf = None
            for root, output in uses:
                if root >= 0:
                    leaf = roots[root]
                    leaf.become_leaf(buffer)
                else:
                    if leaf is None:
                        meta = recipe.meta_of(output)
                        leaf = buffer_node(buffer, meta.shape, meta.dtype)
                    outputs[output] = leaf
    WAITING.some = False
    PENDING.since = PENDING.due = -1
    if RISK.waits:
        forget_changes(any_failed())
    return outputs


def _learn(
    recipe: Recipe, values: Sequence[Node], roots: list[Node], recording: Recording,
    donated: frozenset[int],
) -> Known | None:  # fmt: skip
    """Make the nodes, find the program of all, and say where its inputs are."""
    made = recipe.run(list(values))
    outputs = [made[place] for place in recipe.outputs]
    if any(node.leaf for node in outputs):
        return None
    everything = sorted({*roots, *outputs}, key=_serial)
    whole = record(everything)
    position = {node: i for i, node in enumerate(recording.order)}
    given = {recording.inputs[i] for i in donated}
    fixed, numbers = (
        set(recipe.fixed),
        dict(zip(recipe.number_nodes(made), recipe.numbers, strict=True)),
    )
    inputs: list[int | Node] = []
    for node in whole.inputs:
        if node not in position and node not in fixed:
            return None
        inputs.append(position.get(node, node))
    places: list[Any] = [position[n] if n in position else numbers.get(n) for n in whole.scalars]
    if None in places:
        return None
    mine = frozenset(i for i, node in enumerate(whole.inputs) if node in given)
    program, sizes = realize.programs().find(whole, mine, site_text)
    uses = {
        node: [(i, -1) for i, root in enumerate(roots) if root is node]
        + [(-1, i) for i, output in enumerate(outputs) if output is node]
        for node in everything
    }
    return Known(
        realize.programs(), program, sizes, inputs, places, [uses[node] for node in everything]
    )
