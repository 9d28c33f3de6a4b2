"""build(programs, caps): one module and one pipeline per kernel (bindings are module variables)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rushlight.backends.cfamily.code import Kernel, ThreadProgram
from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.run import GroupExecutable
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.wgsl.driver_impl import open_device
from rushlight.backends.wgsl.language import WGSL
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Caps
from rushlight.compiler.tile.ir import Program


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    found = []
    for one in lower_programs(programs, Machine.of(caps)):
        texts = kernel_texts(one)
        functions = tuple(_pipeline(one, k, t) for k, t in zip(one.kernels, texts, strict=True))
        found.append(GroupExecutable(one.program, one, functions, "\n".join(texts)))
    return found


def lower_text(program: Program, caps: Caps) -> str:
    (lowered,) = lower_programs([program], Machine.of(caps))
    return "\n".join(kernel_texts(lowered))


def kernel_texts(program: ThreadProgram) -> list[str]:
    return [print_programs([replace(program, kernels=(k,))], WGSL()) for k in program.kernels]


def _pipeline(program: ThreadProgram, kernel: Kernel, text: str) -> Any:
    """A pipeline, whose layout binds every buffer, used or not."""
    device = open_device()
    count = len(program.program.buffers) + len(program.scratch)
    kinds = ["storage"] * count + ["read-only-storage", "storage"]
    layout = device.create_bind_group_layout(
        entries=[
            {"binding": i, "visibility": "COMPUTE", "buffer": {"type": kind}}
            for i, kind in enumerate(kinds)
        ]
    )
    try:
        module = device.create_shader_module(code=text)
        return device.create_compute_pipeline(
            layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": kernel.name},
        )
    except RuntimeError as error:
        raise BackendError(f"backend wgsl: {kernel.name}: {error}") from error
