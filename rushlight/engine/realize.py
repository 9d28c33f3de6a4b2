"""Flush: compute every live pending value with compiled programs.

A flush records the pending graph below the live Refs, finds or compiles its program, runs it and
turns the nodes into `buffer` leaves. A flush point is a place in the user's program (a look, the
end of backward, an optimizer step), so the same programs come again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.base.config import config
from rushlight.base.devices import DEVICES
from rushlight.base.fork import hold_over_fork
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import HostError
from rushlight.engine import watch, watched_run
from rushlight.engine.capture import open_session
from rushlight.engine.devices import stages
from rushlight.engine.failures import (
    RunFailed,
    any_failed,
    has_failed,
    host_failed,
    mark_failed,
    needed_later,
    raise_failed,
)
from rushlight.engine.few import KnownFew, describe, few_roots, keep
from rushlight.engine.index_errors import index_error, site_text
from rushlight.engine.interrupts import Uninterrupted
from rushlight.engine.live import WAITING, Ref, is_held, settle_waiting, waiting_refs
from rushlight.engine.pending import PENDING
from rushlight.engine.program import Layout, Program
from rushlight.engine.programs import ProgramCache
from rushlight.engine.signature import Recording, record
from rushlight.engine.undo import RISK, forget_changes
from rushlight.ir.node import Node, topological
from rushlight.runtime.buffer import Buffer, allocate, allocate_all
from rushlight.runtime.packed import PACKED

LOCK = hold_over_fork(threading.RLock())
PROGRAMS = ProgramCache()
MAX_RECOMPUTE_DEPTH = 4
NONE_DONATED: frozenset[int] = frozenset()


def flush(extra: Sequence[Node] = ()) -> None:
    """Compute all live pending nodes and `extra`; each becomes a buffer leaf.

    While a call is captured, flush points are held back and a look ends the capture.
    """
    session = open_session()
    if session is not None:
        if not extra:
            return
        session.refuse("a value is needed in the middle of the call")
    PENDING.since = PENDING.due = -1
    PENDING.first_call = None
    if not extra and not WAITING:
        return
    settings = PENDING.settings
    if settings:
        PENDING.settings = {}
        try:
            with config.override(**settings):
                _flush(extra)
        finally:
            PENDING.forget_asked()
    else:
        _flush(extra)


def compute(node: Node) -> None:
    """`flush((node,))` for a look of which a captured call has been told. Where little waits, this
    goes to the run without a recording."""
    family = watch.quiet_family()
    if family is None or RISK.waits or DEVICES.used or PENDING.settings or node.leaf:
        flush((node,))
        return
    with LOCK:
        PENDING.since = PENDING.due = -1
        PENDING.first_call = None
        if not _compute_few(node, family):
            _flush((node,))


def _compute_few(node: Node, family: int | str) -> bool:
    """False, with nothing done, where the general way must do it, which also says what is wrong."""
    waiting = WAITING.copy()
    roots = few_roots(node, waiting)
    if roots is None:
        return False
    found = describe(roots, family)
    if found is None:
        return False
    key, inputs, numbers, free = found
    try:
        known = PROGRAMS.few.get(key)
        if known is None:
            program, values = PROGRAMS.find(record(roots), frozenset(free), site_text)
            found_now = KnownFew(program, values, program.layout(values))
            known = keep(PROGRAMS.few, key, found_now)
        program = known.program
        if program is None:
            return False
        buffers = _room_for(known.layout, inputs)
        if not program.overwrites:
            launch(program, known.values, known.layout, inputs, buffers, numbers)
    except Exception:  # the general way comes to it again, and says what is wrong
        return False
    if program.overwrites:
        with Uninterrupted(True):
            launch(program, known.values, known.layout, inputs, buffers, numbers)
    for root, buffer in zip(roots, buffers, strict=True):
        root.become_leaf(buffer)
    del WAITING[: len(waiting)]
    return True


def _flush(extra: Sequence[Node]) -> None:
    with LOCK:
        raise_failed(extra)
        roots, kept, seen = wanted(extra)
        try:
            if roots:
                _compute(roots, kept)
        except RunFailed as failed:
            _go_on(failed, roots, extra)
        except Exception:
            # What was looked at may not be what fails: out of memory, say, or our own fault.
            if not extra or len(roots) == len(extra):
                raise
            try:
                _compute(list(extra), None)
            except RunFailed as failed:
                _go_on(failed, extra, extra)
        else:
            settle_waiting(seen)


def _go_on(failed: RunFailed, roots: Sequence[Node], extra: Sequence[Node]) -> None:
    """Everything that does not need what is missing is computed all the same."""
    failed.__traceback__ = None  # its frames hold memory of the run
    lost = list(filter(has_failed, roots))
    if not lost:
        raise failed.error
    if extra:
        flush(extra)  # raises if one of them is lost
        return
    try:
        raise_failed(lost)
    finally:
        flush()


def _compute(roots: list[Node], kept: set[Node] | None) -> None:
    """Run the programs of these pending nodes; they become leaves. `kept` None: keep all inputs."""
    if not DEVICES.used:
        _compute_one(roots, kept)
        return
    parts = stages(roots)
    for part in parts:
        # What one program may overwrite another may still need.
        _compute_one(part, kept if len(parts) == 1 else None)


def _compute_one(roots: list[Node], kept: set[Node] | None) -> None:
    recording = record(roots)
    donated = NONE_DONATED if kept is None else find_donated(recording, kept)
    program, values = PROGRAMS.find(recording, donated, site_text)
    PENDING.tell(program)
    inputs = [node.buffer for node in recording.inputs]
    if program.overwrites:
        with Uninterrupted(True):
            _run_recorded(program, values, inputs, recording)
    else:
        _run_recorded(program, values, inputs, recording)
    if RISK.waits:
        forget_changes(any_failed())


def _run_recorded(
    program: Program, values: np.ndarray, inputs: list[Buffer], recording: Recording
) -> None:
    try:
        buffers = run_program(program, values, inputs, recording.numbers)
    except RunFailed as failed:
        mark_failed(recording, failed)
        raise
    finally:
        inputs.clear()
    for node, buffer in zip(recording.roots, buffers, strict=True):
        node.become_leaf(buffer)


def read(node: Node) -> np.ndarray:
    """The value as a numpy array over the node's own memory (flushes if pending)."""
    if node.leaf != "buffer":
        flush((node,))
    return node.buffer.view(node.dtype, node.shape)


def read_alone(node: Node) -> np.ndarray:
    """The value of this node only: what else waits stays as it is, and nothing is overwritten."""
    if node.leaf != "buffer":
        with LOCK:
            try:
                _compute([node], None)
            except RunFailed as failed:
                raise failed.error from None
    return node.buffer.view(node.dtype, node.shape)


def _pending(refs: Sequence[Ref]) -> tuple[dict[Node, None], list[Node], list[Node]]:
    """What cells wait for: to compute, saved for a backward only, lost in a run that failed."""
    roots: dict[Node, None] = {}
    saved: list[Node] = []
    lost: list[Node] = []
    some_failed = any_failed()
    for ref in refs:
        node = ref.node
        if node.leaf:  # a number stays one: it is shared, and every program takes it as an input
            continue
        if some_failed and has_failed(node):
            lost += [node, *(c.before for c in ref.changes or () if c.before is not None)]
        elif ref.saved or node.pairs:  # a pair value is computed for who looks at it only
            saved.append(node)
        else:
            roots[node] = None
    return roots, saved, lost


def wanted(extra: Sequence[Node]) -> tuple[list[Node], set[Node], int]:
    """Pending nodes to compute, in order of recording; leaves that must survive besides those
    that are held; how many waiting Refs were looked at (see `settle_waiting`)."""
    seen, refs = waiting_refs()
    survive: set[Node] = set()
    roots, saved, lost = _pending(refs)
    for node in extra:
        if node.leaf != "buffer":
            roots[node] = None
    for node in saved:
        for source in _behind_pairs(node):
            if not _is_recomputed(source, roots, MAX_RECOMPUTE_DEPTH):
                roots[source] = None
    for node in saved:
        if node not in roots:
            survive.update(n for n in topological([node], roots.__contains__) if n.leaf)
    if lost:
        survive |= needed_later(lost)
    return sorted(roots, key=_serial), survive, seen


_serial = attrgetter("serial")
_address = attrgetter("address")


def _behind_pairs(node: Node) -> list[Node]:
    """What a pair value is made of: it is never kept itself (ops/pairs.py)."""
    if not node.pairs:
        return [node]
    return [n for n in topological([node], lambda n: not n.pairs) if not n.pairs]


def _is_recomputed(node: Node, roots: dict[Node, None], depth: int) -> bool:
    """A saved value that the backward program derives from what is kept anyway."""
    if node.leaf or node in roots:
        return True
    assert node.op is not None
    if not node.op.cheap or depth == 0:
        return False
    return all(_is_recomputed(source, roots, depth - 1) for source in node.src)


def find_donated(recording: Recording, survive: set[Node]) -> frozenset[int]:
    """Inputs that nobody needs after this flush and whose memory nobody else sees."""
    found = [
        i
        for i, node in enumerate(recording.inputs)
        # The node's own reference and the call's argument: nobody else holds the memory.
        if not is_held(node) and node not in survive
        and not node.buffer.foreign and getrefcount(node.buffer) == 2
    ]  # fmt: skip
    return frozenset(found) if found else NONE_DONATED


def run_program(
    program: Program, values: np.ndarray, inputs: Sequence[Buffer], numbers: Sequence[object]
) -> list[Buffer]:
    """Run with these inputs; a buffer per result (a donated input's where it takes that over)."""
    layout = program.layout(values)
    results = _room_for(layout, inputs)
    launch(program, values, layout, inputs, results, numbers)
    if DEVICES.used:  # a donated input may come from another device
        for buffer in results:
            buffer.device = program.device
    return results


def _room_for(layout: Layout, inputs: Sequence[Buffer]) -> list[Buffer]:
    """Memory of the results: new, or a donated input's."""
    new = allocate_all(layout.new_bytes)
    if layout.new_at is None:
        return new
    results = [inputs[source] for source in layout.taken]
    for position, buffer in zip(layout.new_at, new, strict=True):
        results.insert(position, buffer)
    return results


def launch(
    program: Program, values: np.ndarray, layout: Layout, inputs: Sequence[Buffer],
    results: Sequence[Buffer], numbers: Sequence[object],
) -> None:  # fmt: skip
    """Run into these results; where a result takes an input's memory, it is that input."""
    addresses = [*map(_address, inputs), *map(_address, results)]
    if layout.arena_bytes:
        arena = allocate(layout.arena_bytes)
        start = arena.address
        addresses += [start + offset for offset in layout.offsets]
    else:
        addresses += layout.offsets
    for number, source in layout.updated:
        # A temp that a kernel updates in place: it starts as what the input holds.
        addresses[number] = addresses[source]
    run_at(program, addresses, values, inputs, numbers)


def _run_with_panels(
    program: Program, pointers: Sequence[int], values: np.ndarray,
    inputs: Sequence[Buffer | Node], numbers: Sequence[object],
) -> int:  # fmt: skip
    """A run that takes packed weights from the last one, or leaves them for the next."""
    held: Any = inputs
    if Node in map(type, inputs):
        held = [leaf.buffer if isinstance(leaf, Node) else leaf for leaf in inputs]
    lease, status = PACKED.lend(program.keeps, held), 1
    loaded: Any = program.loaded  # one that keeps panels takes their places, too
    try:
        status = loaded.run(pointers, values, numbers, lease.places)
    finally:
        if lease.filling:
            PACKED.settle(lease, status == 0)
    return status


def programs() -> ProgramCache:
    """The programs that flushes find."""
    return PROGRAMS


def run_at(
    program: Program, pointers: Sequence[int], values: np.ndarray,
    inputs: Sequence[Buffer | Node],
    numbers: Sequence[object],
) -> None:  # fmt: skip
    """Run on these addresses, one per buffer of the plan. `inputs` (leaves will do): for the text
    of an error."""
    if PACKED.at:
        PACKED.written(pointers[program.input_count :])
    try:
        if watch.is_watched():
            status = watched_run.run_watched(program, pointers, values, numbers)
        elif program.keeps and config.packed_weights_mb:
            status = _run_with_panels(program, pointers, values, inputs, numbers)
        else:
            status = program.loaded.run(pointers, values, numbers)
    except HostError as refused:
        raise host_failed(refused) from None
    if status:
        sizes = Hints(dict(zip(program.template.names, values.tolist(), strict=True)))
        held = [leaf.buffer if isinstance(leaf, Node) else leaf for leaf in inputs]
        error = index_error(program.plan, status, sizes, held, numbers)
        raise RunFailed(program.plan.checked_at[status - 1], error)
