"""A flush together with nodes that are known only as a recipe: they need not be made.

In: a recipe (ir/recipe.py) and the nodes that its slots stand for. Out: its outputs as leaves in
memory; everything else that waits is computed by the same program, as by any flush. None, with
nothing done, where the nodes must be made after all.

The first time the nodes are made and recorded with the rest, and what the program reads and gives
is noted as places: in the recording of the rest, and among the recipe's numbers. From then on the
recording of the rest, the recipe and what may be overwritten say all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from rushlight.base.config import config
from rushlight.base.devices import DEVICES
from rushlight.engine import origin, realize, watch
from rushlight.engine.capture import open_session
from rushlight.engine.failures import RunFailed, any_failed
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.live import settle_waiting
from rushlight.engine.program import Layout, Program
from rushlight.engine.realize import LOCK, PENDING, find_donated, launch, site_text, wanted
from rushlight.engine.signature import Recording, record
from rushlight.engine.undo import RISK, forget_changes
from rushlight.ir.node import Node, buffer_node
from rushlight.ir.recipe import Again, Recipe
from rushlight.runtime.buffer import Buffer, allocate
from rushlight.runtime.shared_block import SharedBlock

MOST_KNOWN = 256
_serial = attrgetter("serial")


@dataclass(frozen=True)
class Known:
    """cache    the programs that it was found in
    inputs   of the program: positions in the recording
    numbers  position in the recording, or a number of the recipe
    results  for each: the roots and the outputs that it is the value of
    taken    (result, input whose memory it gets)
    shared   memory of the outputs alone, which live and die together; single: (result, bytes) of
             the other new ones
    """

    cache: Any
    program: Program
    values: np.ndarray
    inputs: list[int]
    numbers: list[int | Again]
    results: list[tuple[list[int], list[int]]]
    layout: Layout
    taken: list[tuple[int, int]]
    shared: SharedBlock
    single: list[tuple[int, int]]

    def memory(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """A buffer for each result."""
        buffers: list[Any] = [None] * len(self.results)
        self.shared.take(buffers)
        for result, nbytes in self.single:
            buffers[result] = allocate(nbytes)
        for result, source in self.taken:
            buffers[result] = inputs[source]
        return buffers


_KNOWN: dict[tuple, Known] = {}


def flush_with(recipe: Recipe, values: Sequence[Node]) -> list[Node] | None:
    """The recipe's outputs over these values."""
    if open_session() is not None or origin.STATE.on or DEVICES.used or not recipe.makes_all:
        return None
    with LOCK:
        if any_failed():
            return None
        if PENDING.settings:
            with config.override(**PENDING.settings):
                outputs = _flush(recipe, values)
        else:
            outputs = _flush(recipe, values)
        PENDING.since = PENDING.due = -1
        if outputs is not None:  # else an ordinary flush follows
            PENDING.forget_asked()
        return outputs


def _flush(recipe: Recipe, values: Sequence[Node]) -> list[Node] | None:
    roots, kept, seen = wanted(())
    if DEVICES.used:  # since this flush waited for its turn: another thread's nodes may be there
        return None
    recording = record([*roots, *values])
    donated = find_donated(recording, kept)
    key = (
        recording.key, recording.ints, len(roots), donated, recipe, config.backend,
        config.max_autotune, watch.program_family(),
    )  # fmt: skip
    known = _KNOWN.get(key)
    if known is None or known.cache is not realize.programs():
        known = _learn(recipe, values, roots, recording, donated)
        if known is None:
            return None
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    PENDING.tell(known.program)
    order = recording.order
    inputs = [order[place].buffer for place in known.inputs]
    numbers = [
        (order[place] if place.__class__ is int else place(values)).attrs[0]  # type: ignore[index,operator]
        for place in known.numbers
    ]
    with Uninterrupted(bool(known.program.plan.reuse)):
        try:
            buffers = known.memory(inputs)
            launch(known.program, known.values, known.layout, inputs, buffers, numbers)
        except RunFailed:
            return None  # the ordinary way says what failed
        del inputs
        outputs = _placed(known, recipe, roots, buffers)
    settle_waiting(seen)
    if RISK.waits:
        forget_changes(any_failed())
    return outputs


def _placed(
    known: Known, recipe: Recipe, roots: Sequence[Node], buffers: Sequence[Buffer]
) -> list[Node]:
    """The roots become leaves; leaves for the outputs."""
    outputs: list[Any] = [None] * len(recipe.outputs)
    for buffer, (of_roots, of_outputs) in zip(buffers, known.results, strict=True):
        for place in of_roots:
            roots[place].become_leaf(buffer)
        if of_outputs:
            meta = recipe.meta_of(of_outputs[0])
            leaf = roots[of_roots[0]] if of_roots else buffer_node(buffer, meta.shape, meta.dtype)
            for place in of_outputs:
                outputs[place] = leaf
    return outputs


def _learn(
    recipe: Recipe, values: Sequence[Node], roots: list[Node], recording: Recording,
    donated: frozenset[int],
) -> Known | None:  # fmt: skip
    """Make the nodes, find the program of all, and say where its inputs are."""
    made = recipe.run(list(values))
    outputs = [made[place] for place in recipe.outputs]
    if any(node.leaf for node in outputs):  # of tensors without memory
        return None
    everything = sorted({*roots, *outputs}, key=_serial)
    whole = record(everything)
    position = {node: i for i, node in enumerate(recording.order)}
    own: dict[Node, Again] = dict(zip(recipe.number_nodes(made), recipe.numbers, strict=True))
    inputs = [position[node] for node in whole.inputs]
    numbers = [position[node] if node in position else own[node] for node in whole.scalars]
    given = {recording.inputs[i] for i in donated}
    mine = frozenset(i for i, node in enumerate(whole.inputs) if node in given)
    program, sizes = realize.programs().find(whole, mine, site_text)
    results = [(_places(node, roots), _places(node, outputs)) for node in everything]
    return Known(
        realize.programs(), program, sizes, inputs, numbers, results,
        *_memory(program.layout(sizes), results),
    )  # fmt: skip


def _memory(layout: Layout, results: Sequence[tuple[list[int], list[int]]]) -> tuple:
    """The fields of Known that say which memory results get."""
    at = range(len(results)) if layout.new_at is None else layout.new_at
    new = dict(zip(at, layout.new_bytes, strict=True))
    over = [result for result in range(len(results)) if result not in new]
    shared = [(result, nbytes) for result, nbytes in new.items() if not results[result][0]]
    single = [(result, nbytes) for result, nbytes in new.items() if results[result][0]]
    return layout, list(zip(over, layout.taken, strict=True)), SharedBlock(shared), single


def _places(node: Node, nodes: Sequence[Node]) -> list[int]:
    return [i for i, other in enumerate(nodes) if other is node]
