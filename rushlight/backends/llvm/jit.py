"""LLVM text to object code, and object code to addresses that can be unloaded again.

Each compilation has an LLVM context of its own (so nothing piles up), each loaded object a dynamic
library of its own in one process-wide JIT. Code lives as long as its Library is referred to.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm

from rushlight.backends.llvm.caps import Target, initialize, initialize_all
from rushlight.backends.llvm.tile_emulated import EMULATION, PREFIX
from rushlight.base.address_space import require_room
from rushlight.runtime.cache import disk_cache

# LLVM ends the process where it finds no memory. Its tables come with the first code that it makes.
ROOM_AT_FIRST, ROOM = 64 << 20, 16 << 20
_NUMBERS = itertools.count()
_HEADS = re.compile(r"^(define .*\))", re.MULTILINE)


class Library:
    """Loaded object code. Dropping the last reference unloads it."""

    def __init__(self, tracker: llvm.ResourceTracker, symbols: Sequence[str]) -> None:
        self._tracker = tracker
        self.addresses = {symbol: tracker[symbol] for symbol in symbols}


@functools.cache
def target_machine(cpu: str, features: str, triple: str = "") -> llvm.TargetMachine:
    """The code generator for a CPU. Code is position independent and small.

    One level of optimization for kernels of all sizes: of a GPT step 1, 2 and 3 take equally long
    (1.3 s for 43 kernels) and make equally fast code; 0 takes 0.4 s, and the step 2.7 times as
    long.
    """
    initialize()
    if triple:
        initialize_all()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    return target.create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", jit=not triple
    )


@functools.cache
def _jit() -> llvm.LLJIT:
    initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


def parse(text: str, machine: llvm.TargetMachine, verify: bool = False) -> llvm.ModuleRef:
    """LLVM text as a module in a context of its own, with the emulation that it calls."""
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context=context)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if PREFIX in text:
        module.link_in(llvm.parse_assembly(EMULATION, context=context))
    if verify:
        module.verify()
    return module


def compile_text(text: str, target: Target, verify: bool = False) -> bytes:
    """An object file from LLVM text."""
    is_first = not target_machine.cache_info().currsize
    require_room(ROOM_AT_FIRST if is_first else ROOM, "making machine code")
    machine = target_machine(target.cpu, target.features, target.triple)
    return machine.emit_object(parse(_sized(text, target), machine, verify))


def assembly_of(text: str, target: Target) -> str:
    """The machine code as text, for people and tests."""
    machine = target_machine(target.cpu, target.features, target.triple)
    return machine.emit_assembly(parse(_sized(text, target), machine))


def _sized(text: str, target: Target) -> str:
    """Scalable vectors have a length that is known: then vectors of that length need no loop."""
    if target.scalable_bits <= 128:
        return text
    times = target.scalable_bits // 128
    return _HEADS.sub(rf"\1 vscale_range({times},{times})", text)


def load_object(data: bytes, symbols: Sequence[str]) -> Library:
    """Make the code of an object file callable; addresses by symbol."""
    require_room(ROOM, "loading machine code")
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_jit(), f"rushlight.{next(_NUMBERS)}")
    return Library(tracker, symbols)


def kept_object(key: str, make: Callable[[], bytes]) -> bytes:
    """Object code that every process needs, from disk or made. `key`: all that it depends on,
    besides the version of LLVM."""
    disk = disk_cache()
    full = f"object {llvm.llvm_version_info} {key}"
    data = None if disk is None else disk.get(full)
    if data is None:
        data = make()
        if disk is not None:
            disk.put(full, data)
    return data
