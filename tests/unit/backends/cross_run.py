"""Run plans compiled for another machine: a C program around the object file, under qemu.

The memory of all buffers goes in by stdin and comes back by stdout.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

from rushlight.backends.llvm.build import build_object
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.compiler.given import Graph
from rushlight.compiler.pipeline import compile_graph
from rushlight.compiler.sizes import Hints
from rushlight.compiler.target import Caps, HostCall, Plan
from rushlight.ir.node import Node, topological
from rushlight.ir.symint_walk import evaluate

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
MISSING = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
ALIGN = 256


def compiled(roots: list[Node], caps: Caps) -> tuple[Plan, bytes]:
    """The plan of a graph, and the object file of all its programs."""
    objects: list[bytes] = []

    def build(programs):
        data, executables = build_object(programs, caps)
        objects.append(data)
        return executables

    inputs = tuple(n for n in topological(roots) if n.leaf == "buffer")
    graph = Graph(inputs, tuple(roots), frozenset(), (), Hints({}), lambda node: node.name)
    plan = compile_graph(graph, build)
    (data,) = objects
    return plan, data


class _Memory:
    """Places in one block of bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, data: bytes) -> int:
        self.data += bytes(-len(self.data) % ALIGN)
        start = len(self.data)
        self.data += data
        return start


def run_under_qemu(roots: list[Node], caps: Caps, cpu: str, folder: Path) -> list[np.ndarray]:
    """The values of the roots, computed by an emulated CPU."""
    plan, data = compiled(roots, caps)
    inputs = [n for n in topological(roots) if n.leaf == "buffer"]
    memory = _Memory()
    sizes = [evaluate(spec.size, {}) * spec.dtype.itemsize for spec in plan.buffers]
    contents = [leaf.buffer.view(leaf.dtype, leaf.shape).tobytes() for leaf in inputs]
    contents += [bytes(size) for size in sizes[len(inputs) :]]
    places = [memory.put(content + bytes(64)) for content in contents]
    lines = []
    for region in plan.regions:
        for call in region:
            assert not isinstance(call, HostCall)
            lines += _call(call, places, memory)
    (folder / "kernels.o").write_bytes(data)
    (folder / "main.c").write_text(_program(lines, len(memory.data)))
    build = [COMPILER, "-O1", "-static", "main.c", "kernels.o", "-lm", "-o", "main"]
    subprocess.run(build, cwd=folder, check=True, timeout=120)
    done = subprocess.run(
        [EMULATOR, "-cpu", cpu, "./main"], cwd=folder, input=bytes(memory.data),
        capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    found = []
    for root, place in zip(roots, places[len(inputs) :], strict=False):
        size = int(np.prod(root.shape))
        found.append(np.frombuffer(done.stdout, root.dtype.np, size, place).reshape(root.shape))
    return found


def _call(call, places: list[int], memory: _Memory) -> list[str]:
    executable: LlvmExecutable = call.executable
    own = {
        v.name: evaluate(n, {}) for v, n in zip(executable.program.sizes, call.ints, strict=True)
    }
    assert not executable.program.params
    scratch = [memory.put(bytes(dtype.itemsize * evaluate(n, own) + 64))
               for dtype, n in executable.scratch]  # fmt: skip
    pointers = [places[number] for number in call.buffers[: len(executable.program.buffers)]]
    ints = memory.put(np.array([*own.values(), 0], np.int64).tobytes())
    none = ["0" for launch in executable.launches for _ in launch.keeps]  # panels that stay
    listed = ", ".join([*(f"memory + {at}" for at in (*pointers, *scratch)), *none])
    lines = [f"{{ void *bufs[] = {{{listed}}};"]
    for launch in executable.launches:
        count, local = evaluate(launch.instances, own), evaluate(launch.local_bytes, own)
        at = memory.put(bytes(local + 64))
        lines.append(
            f"{{ extern kernel {launch.symbol}; {launch.symbol}(0, {count}, bufs, memory + {ints}, "
            f"memory, memory + {at}, &status); }}"
        )
    return [*lines, "}"]


def _program(lines: list[str], size: int) -> str:
    body = "\n    ".join(lines)
    return f"""\
#include <stdio.h>
typedef void kernel(long, long, void **, void *, void *, void *, long *);
static unsigned char memory[{size}] __attribute__((aligned({ALIGN})));
static long status;
int main(void) {{
    if (fread(memory, 1, sizeof memory, stdin) != sizeof memory) return 2;
    {body}
    if (status) return 3;
    return fwrite(memory, 1, sizeof memory, stdout) == sizeof memory ? 0 : 4;
}}
"""
