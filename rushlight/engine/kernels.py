"""Executables by the text of their programs: in memory, then on disk, then built.

A key holds the program's structural text, the target's features and a hash of our own sources, so
an entry of another version or machine is never found.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from rushlight.base.config import config
from rushlight.base.errors import RefusedError
from rushlight.base.sources import source_hash
from rushlight.compiler.target import Backend, Caps, Executable
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.text import structural_key
from rushlight.runtime.cache import DiskCache, disk_cache

MAX_IN_MEMORY = 2048
_BUILT: dict[str, Executable] = {}
_LOCK = threading.Lock()


def full_key(key: str, backend: Backend, caps: Caps) -> str:
    tuned = f"|tuned for {caps.threads} threads" if config.max_autotune else ""
    lowered_for = str(caps.groups_of_threads)
    return "|".join((key, backend.name, caps.features, lowered_for, source_hash())) + tuned


def build_kernels(
    programs: Sequence[Program],
    backend: Backend,
    caps: Caps,
    made: list[tuple[Executable, str, str]] | None = None,
) -> list[Executable]:
    """One executable per program; equal programs share one.

    `made` gets each with its structural key and a word: "built", "disk" or "cached" (in memory).
    """
    refuse_early(programs, backend, caps)
    name_of = {p: structural_key(p) for p in dict.fromkeys(programs)}
    key_of = {p: full_key(name, backend, caps) for p, name in name_of.items()}
    keys = [key_of[program] for program in programs]
    missing = {k: p for k, p in zip(keys, programs, strict=True) if k not in _BUILT}
    disk = disk_cache() if backend.dump is not None else None
    came, new = {}, []
    for key, program in missing.items():
        found = _from_disk(disk, key, program, backend, caps)
        came[key] = "built" if found is None else "disk"
        if found is None:
            new.append(key)
        else:
            _keep(key, found)
    _build_new({key: missing[key] for key in new}, backend, caps, disk)
    built = []
    for key, program in zip(keys, programs, strict=True):
        executable = _BUILT.get(key)
        if executable is None:
            (executable,) = backend.build([program], caps)
        elif not executable.program.grids:  # found for a plan from disk, by its head
            executable = replace(executable, program=program)  # type: ignore[type-var]
        built.append(executable)
    if made is not None:
        words = [came.get(key, "cached") for key in keys]
        made += zip(built, [name_of[program] for program in programs], words, strict=True)
    return built


def _build_new(
    programs: dict[str, Program], backend: Backend, caps: Caps, disk: DiskCache | None
) -> None:
    """Build these programs, by key, and keep them in memory and on disk."""
    keys = list(programs)
    for some in [keys] if backend.in_parallel and keys else [[key] for key in keys]:
        built = backend.build([programs[key] for key in some], caps)
        for key, executable in zip(some, built, strict=True):
            if disk is not None and backend.dump is not None:
                disk.put(key, backend.dump(executable))
            _keep(key, executable)


def find_kernel(name: str, program: Program, backend: Backend, caps: Caps) -> Executable | None:
    """The executable with this structural key, when it is in memory or on disk. `program`: its
    head, see compiler/plan_record.py."""
    key = full_key(name, backend, caps)
    found = _BUILT.get(key)
    if found is None:
        found = _from_disk(disk_cache(), key, program, backend, caps)
        if found is not None:
            _keep(key, found)
    return found


def _keep(key: str, executable: Executable) -> None:
    with _LOCK:
        while len(_BUILT) >= MAX_IN_MEMORY:
            _BUILT.pop(next(iter(_BUILT)))
        _BUILT[key] = executable


def refuse_early(programs: Sequence[Program], backend: Backend, caps: Caps) -> None:
    """RefusedError with the reasons of all programs, before the first one is built."""
    if backend.refuse is None:
        return
    refused: dict[str, tuple[str, ...]] = {}
    for program in programs:  # programs may have the same name
        reasons = [*refused.get(program.name, ()), *backend.refuse(program, caps)]
        if reasons:
            refused[program.name] = tuple(dict.fromkeys(reasons))
    if refused:
        raise RefusedError(backend.name, refused)


def _from_disk(
    disk: DiskCache | None, key: str, program: Program, backend: Backend, caps: Caps
) -> Executable | None:
    data = None if disk is None else disk.get(key)
    if data is None or backend.restore is None:
        return None
    try:
        return backend.restore(program, data, caps)
    except (ValueError, KeyError, TypeError, RuntimeError, OSError, AttributeError):
        return None  # not an entry of ours: it is built again and overwritten
