"""A hash of this package's own sources, for keys of what is kept on disk.

Of all files of code in some folders (Python, the header of an emulation): their names, sizes and
times of change, which is what Python itself looks at; to read 1,000 files takes longer than to
compile a kernel. The version is read: packages built reproducibly have the same times in every
release.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
NO_CODE = ("__pycache__", ".md", ".pyc", ".pyi")


@functools.cache
def source_hash() -> str:
    """Of everything that shapes the code of a tile program."""
    return _hash(tuple(_of(f) for f in ("base", "ir", "ops", "compiler", "backends", "engine")))


@functools.cache
def package_hash() -> str:
    """Of all our sources: records are declared in many folders."""
    with os.scandir(_ROOT) as entries:
        folders = sorted(e.name for e in entries if e.is_dir() and e.name != "__pycache__")
    return _hash((_stamps(_python_files(str(_ROOT))), *map(_of, folders)))


def _hash(parts: tuple[str, ...]) -> str:
    version = (_ROOT / "names" / "version.py").read_text()
    return hashlib.sha256("\n".join((version, *parts)).encode()).hexdigest()


@functools.cache
def _of(folder: str) -> str:
    return _stamps(_below(str(_ROOT / folder)))


def _stamps(files: Iterator[os.DirEntry[str]]) -> str:
    found = []
    for file in files:
        info = file.stat()
        found.append(f"{file.path} {info.st_size} {info.st_mtime_ns}")
    return "\n".join(sorted(found))


def _python_files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if entry.name.endswith(".py"))


def _below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Files of code, those of folders inside too; faster than pathlib's."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry
            elif entry.name.endswith(NO_CODE):
                continue
            elif entry.is_dir():
                yield from _below(entry.path)
            else:
                yield entry
