"""build(programs, caps): Triton text, a module, functions. One module for all programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rushlight.backends.cfamily.code import ThreadProgram
from rushlight.backends.cfamily.run import GroupExecutable, GroupPlan
from rushlight.backends.products import choose, is_product
from rushlight.backends.triton.driver_impl import chip_of, require_gpu, target_of
from rushlight.backends.triton.gpu_impl import attach_to_gpu, load_on_gpu, made_by
from rushlight.backends.triton.interpret_impl import interpreted, load_interpreted
from rushlight.backends.triton.module_text import lowered, print_module, schedule_of
from rushlight.backends.triton.tune_impl import Tuner, is_static
from rushlight.base.config import config
from rushlight.compiler.decisions import Decision
from rushlight.compiler.target import Caps, Plan
from rushlight.compiler.tile.ir import Program
from rushlight.runtime.cuda_impl import Gpu


def build(programs: Sequence[Program], caps: Caps) -> list[GroupExecutable]:
    if config.triton_interpret:
        found = lowered(programs, caps)
        return attach(found, print_module(found), chip_of(caps))
    return build_on_gpu(programs, caps, require_gpu())


def lower_text(program: Program, caps: Caps) -> str:
    """The Triton module of a program, or what another maker has for it."""
    chip = chip_of(caps)
    maker = choose(program, chip, "triton")[0] if is_product(program) else None
    return print_module(lowered([program], caps)) if maker is None else maker.text(program, chip)


def picks(executable: GroupExecutable, caps: Caps) -> list[Decision]:
    """Who made a product, how it is cut, and why."""
    return list(executable.decisions)


def attach(programs: Sequence[ThreadProgram], text: str, chip: str) -> list[GroupExecutable]:
    kernels = [
        (kernel.name, [m.dtype for m in (*one.program.buffers, *one.scratch)])
        for one in programs
        for kernel in one.kernels
    ]
    functions, found = interpreted(text, kernels), []
    for one in programs:
        mine, functions = functions[: len(one.kernels)], functions[len(one.kernels) :]
        decisions = _decisions(one, chip)
        found.append(GroupExecutable(one.program, one, tuple(mine), text, text.encode(), decisions))
    return found


def _decisions(lowered: ThreadProgram, chip: str) -> tuple[Decision, ...]:
    plan = schedule_of(lowered)
    if plan is None:
        return ()
    _, who = choose(lowered.program, chip, "triton")
    return who, Decision(plan.name, ("default: nothing is measured in the interpreter",))


def build_on_gpu(programs: Sequence[Program], caps: Caps, gpu: Gpu) -> list[GroupExecutable]:
    """Kernels compiled and loaded; products by whoever is chosen for them."""
    found: dict[Program, GroupExecutable] = {}
    for program in programs:
        if is_product(program):
            found[program] = _product_on_gpu(program, caps, gpu)
    others = [program for program in programs if program not in found]
    if others:
        for made in attach_to_gpu(lowered(others, caps), gpu):
            found[made.program] = made
    return [found[program] for program in programs]


def _product_on_gpu(program: Program, caps: Caps, gpu: Gpu) -> GroupExecutable:
    chip = target_of(gpu)
    tuner = Tuner(gpu, caps) if config.max_autotune and is_static(program) else None
    wanted, cut = tuner.schedule(program) if tuner else (None, None)
    measure = None if tuner is None else partial(tuner.maker, program, wanted)
    maker, decision = choose(program, chip, "triton", measure)
    if maker is not None:
        return made_by(maker, program, chip, (decision,))
    (made,) = attach_to_gpu(lowered([program], caps, wanted), gpu)
    plan = schedule_of(made.lowered)
    if cut is None and plan is not None:
        cut = Decision(plan.name, ("default: sizes vary, or max_autotune is off",))
    decisions = (decision,) if cut is None else (decision, cut)
    return replace(made, decisions=decisions)


def load(plan: Plan, caps: Caps) -> GroupPlan:
    if config.triton_interpret:
        return load_interpreted(plan)
    return load_on_gpu(plan, require_gpu())
