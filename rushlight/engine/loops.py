"""Runs the steps of `time_loop` (ops/time_loop.py): one program, started once for every time.

A step is compiled as any recorded graph is, and found again by its text. At every time only the
addresses change: those of the sequences and the kept results move on by one time, and a carry is
read where the time before wrote it. So no value is copied between times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.base.config import config
from rushlight.compiler.sizes import Hints
from rushlight.engine.index_errors import index_error, site_text
from rushlight.engine.program import Program
from rushlight.engine.realize import LOCK, PROGRAMS
from rushlight.engine.signature import Recording, record
from rushlight.engine.watch import settings_family
from rushlight.ir.node import Node, buffer_node, topological
from rushlight.ir.text import parse_graph
from rushlight.ops.time_loop import Runner, flat_spans
from rushlight.runtime.buffer import allocate, from_address

MOST_STEPS = 256
_STEPS: OrderedDict[tuple, Step] = OrderedDict()


@dataclass(frozen=True)
class Step:
    """A compiled step. `places[i]`: which buffer of the step's text input i of the program is."""

    recording: Recording
    program: Program
    values: np.ndarray
    places: tuple[int, ...]


def find_step(text: str) -> Step:
    """The compiled step of a text."""
    key = (text, config.backend, settings_family())
    found = _STEPS.pop(key, None)
    if found is None:
        found = _compile(text)
    _STEPS[key] = found
    while len(_STEPS) > MOST_STEPS:
        _STEPS.popitem(last=False)
    return found


def _compile(text: str) -> Step:
    leaves = [
        # Memory of its own: checks look at the values of inputs before a program runs.
        buffer_node(_zeroed(node), node.shape, node.dtype)
        for node in topological(list(parse_graph(text)))
        if node.leaf == "buffer"
    ]
    recording = record(parse_graph(text, leaves))
    program, values = PROGRAMS.find(recording, frozenset(), site_text)
    number = {node: i for i, node in enumerate(leaves)}
    return Step(recording, program, values, tuple(number[node] for node in recording.inputs))


def _zeroed(node: Node) -> object:
    buffer = allocate(node.numel() * node.dtype.itemsize)  # type: ignore
    buffer.view(node.dtype, node.shape)[...] = 0  # type: ignore
    return buffer


def run_loop(
    operands: Sequence[np.ndarray],
    step: str,
    reads: tuple[int, ...],
    carries: tuple[int, ...],
    sequences: int,
    keeps: tuple[bool, ...],
    sizes: tuple[int, ...],
    backwards: bool,
) -> np.ndarray:
    """The flat result of a `time_loop`."""
    times = len(operands[len(carries)])
    kept, last, length = flat_spans(times, keeps, sizes, carries)
    dtype = operands[0].dtype
    out = np.empty(length, dtype)
    with LOCK:
        found = find_step(step)
        layout = found.program.layout(found.values)
        count = len(found.program.plan.buffers)
        # Two places for each carry that is not kept: one is read while the other is written.
        spare = allocate(2 * sum(sizes) * dtype.itemsize + layout.arena_bytes + 64)
        table = _addresses(
            operands, reads, carries, sequences, kept, sizes, backwards, found, out, spare.address,
            (times, count),
        )  # fmt: skip
        arena = spare.address + 2 * sum(sizes) * dtype.itemsize
        arena = -(-arena // 64) * 64
        inputs, results = len(found.places), len(sizes)
        table[:, inputs + results :] = layout.temp_offsets + arena
        for buffer, source in found.program.plan.reuse.items():
            table[:, buffer] = table[:, source]
        order = reversed(range(times)) if backwards else range(times)
        for t in order:
            status = found.program.loaded.run(table[t], found.values, found.recording.numbers)
            if status:
                raise _wrong_index(found, status)
        _copy_last(out, last, carries, sizes, table[0 if backwards else -1], inputs)
    return out


def _addresses(
    operands: Sequence[np.ndarray],
    reads: tuple[int, ...],
    carries: tuple[int, ...],
    sequences: int,
    kept: Sequence[int | None],
    sizes: tuple[int, ...],
    backwards: bool,
    step: Step,
    out: np.ndarray,
    spare: int,
    shape: tuple[int, int],
) -> np.ndarray:
    """The addresses of all buffers at all times: inputs, then results; temps are left out."""
    times = np.arange(shape[0], dtype=np.int64)
    # How many times have run before this one.
    done = times[::-1] if backwards else times
    item = out.itemsize
    written = []
    for start, size in zip(kept, sizes, strict=True):
        if start is None:
            written.append(spare + (done % 2) * size * item)
            spare += 2 * size * item
        else:
            written.append(out.ctypes.data + (start + times * size) * item)
    of_operand = []
    for number, array in enumerate(operands):
        address = np.full(shape[0], array.ctypes.data, np.int64)
        if number < len(carries):
            before = written[carries[number]]
            address[1:] = before[:-1]
            if backwards:
                address[:-1], address[-1] = before[1:], array.ctypes.data
        elif number < len(carries) + sequences:
            address += times * array.strides[0]
        of_operand.append(address)
    table = np.zeros(shape, np.int64)
    columns = [*(of_operand[reads[place]] for place in step.places), *written]
    table[:, : len(columns)] = np.transpose(columns)
    return table


def _copy_last(
    out: np.ndarray,
    last: Sequence[int],
    carries: tuple[int, ...],
    sizes: tuple[int, ...],
    addresses: np.ndarray,
    inputs: int,
) -> None:
    """The last value of each carry, behind the kept results."""
    for start, root in zip(last, carries, strict=True):
        size = sizes[root]
        memory = from_address(int(addresses[inputs + root]), size * out.itemsize, None)
        out[start : start + size] = np.asarray(memory).view(out.dtype)


def _wrong_index(step: Step, status: int) -> Exception:
    sizes = Hints(dict(zip(step.program.template.names, step.values.tolist(), strict=True)))
    buffers = [node.buffer for node in step.recording.inputs]
    return index_error(step.program.plan, status, sizes, buffers, step.recording.numbers)


Runner.run = run_loop
