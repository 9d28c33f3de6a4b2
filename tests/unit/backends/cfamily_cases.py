"""Tile programs for the tests of C-like backends, and how to get them from a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rushlight import ops
from rushlight.backends import find_backend
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program
from rushlight.engine.programs import compile_recording
from rushlight.engine.signature import offset_positions, record
from rushlight.engine.template import make_template
from rushlight.ir.node import Node
from rushlight.testing.conformance import Case
from rushlight.testing.conformance.cases import leaf

# What a GPU backend says of itself; nothing is asked of this machine.
GPU = Caps("gpu", dtypes=frozenset(("float32", "int64")), group_threads=64, groups=16)


def programs_of(roots: list[Node], vary: bool = False) -> list[Program]:
    """The tile programs that the compiler makes of a graph."""
    found: list[Program] = []
    null = find_backend("null")

    def build(programs, caps):
        found.extend(programs)
        return null.build(programs, caps)

    recording = record(roots)
    ints = np.array(recording.ints, np.int64)
    samples = np.stack([ints, np.where(ints > 1, ints * 2 + 1, ints)]) if vary else ints[None]
    template = make_template(samples, offset_positions(recording))
    backend = replace(null, build=build)
    compile_recording(recording, template, frozenset(), backend, null.require(), lambda node: "")
    return found


def long_scan() -> Case:
    """A row for two groups."""
    numbers = np.random.default_rng(0).standard_normal(16384 + 300).astype(np.float32)
    return Case("by hand", "scan_long", "", lambda: [ops.scan_sum(leaf(numbers), 0)])


def square_product() -> Case:
    """64 x 64 x 64: there is more than one way to cut it."""
    numbers = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    return Case("square", "by hand", "", lambda: [ops.dot(leaf(numbers[0]), leaf(numbers[1]))])
