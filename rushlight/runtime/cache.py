"""A disk cache that cannot hurt: bytes by key, checked on every read, bounded, shared by processes.

In: a key text (everything the value depends on) and bytes. Out: the same bytes, or None. Always
true: what `get` gives is exactly what some `put` stored under that key; a cut, changed or foreign
file is a miss and is removed; nothing read is ever executed or unpickled here; no error of the
file system reaches the caller (a full or read-only disk means misses).

An entry is a file named by the SHA-256 of its key text: a header (magic, length of the value, the
key's digest, SHA-256 of the value) and the value. It is written beside and renamed, so readers and
writers in any number of processes see whole entries. The folder must be the user's own with mode
0700, because an entry may be object code: another user who could write there could run code as us.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> cache = DiskCache(folder.name, limit_bytes=1 << 20)
>>> cache.put("kernel 1", b"code")
>>> cache.get("kernel 1"), cache.get("kernel 2")
(b'code', None)
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import warnings
from pathlib import Path

from rushlight.base.config import config

MAGIC = b"RLCACHE1"
HEADER_BYTES = len(MAGIC) + 8 + 32 + 32
# After an eviction this part of the limit is left, so that not every put evicts again.
KEEP = 0.8
_STALE_TEMP_S = 3600.0
# So many entries are looked at to learn the size of a cache; a whole one may have a million.
_SAMPLE = 2000


class DiskCache:
    """Entries in one folder. `usable` is False when the folder was refused (all gets miss)."""

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int) -> None:
        self.directory = Path(directory)
        self.limit_bytes = limit_bytes
        self.usable = self._open()
        # What this process believes is stored: looked at before the first put, since reading does
        # not need it; other processes add to it, so each eviction scan renews it.
        self._stored_bytes: int | None = None

    def get(self, key: str) -> bytes | None:
        """The bytes put under this key, or None."""
        if not self.usable:
            return None
        name = key_digest(key)
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        value = unpack_entry(name, data)
        if value is None:
            _remove(path)
            return None
        try:
            os.utime(path)  # Its time of use: eviction takes the oldest.
        except OSError:
            pass
        return value

    def put(self, key: str, value: bytes) -> None:
        """Store; silently not, when the disk is full or read-only or the value too large."""
        entry_bytes = HEADER_BYTES + len(value)
        if not self.usable or entry_bytes > self.limit_bytes:
            return
        if self._stored_bytes is None:
            self._stored_bytes = self._estimate_total()
        name = key_digest(key)
        if not self._write(self._path(name), pack_entry(name, value)):
            return
        self._stored_bytes += entry_bytes
        if self._stored_bytes > self.limit_bytes:
            self._evict()

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, path in self._entries() if self.usable else ():
            _remove(path)
        self._stored_bytes = 0

    def _path(self, name: str) -> Path:
        return self.directory / name[:2] / name

    def _open(self) -> bool:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            return _refuse(self.directory, f"cannot be made ({error.strerror})")
        reason = why_not_private(self.directory)
        return reason is None or _refuse(self.directory, reason)

    def _write(self, path: Path, data: bytes) -> bool:
        temp = None
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            # A name of its own; `tempfile` would cost a tenth of the whole import.
            temp = path.parent / f".new-{os.getpid():x}-{os.urandom(6).hex()}"
            handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temp, path)
        except OSError:
            if temp is not None:
                _remove(temp)
            return False
        return True

    def _folders(self) -> list[str]:
        try:
            found = os.scandir(self.directory)
            return [f.path for f in found if f.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _entries(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of every file, in no order."""
        return [entry for folder in self._folders() for entry in _files(folder)]

    def _estimate_total(self) -> int:
        """Bytes of all entries. Names are hashes, so of many entries some folders tell enough."""
        folders = self._folders()
        total = count = 0
        for number, folder in enumerate(folders, start=1):
            sizes = [size for _, size, _ in _files(folder)]
            total, count = total + sum(sizes), count + len(sizes)
            if count >= _SAMPLE:
                return total * len(folders) // number
        return total

    def _evict(self) -> None:
        """Remove the least recently used entries, and temps of processes that died."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        newest = entries[-1][0] if entries else 0.0
        # Also where the estimate was too high: else each process would look through all entries.
        goal = int(self.limit_bytes * KEEP)
        for used_at, size, path in entries:
            is_temp = path.name.startswith(".new-")
            if is_temp and newest - used_at < _STALE_TEMP_S:
                continue
            if is_temp or total > goal:
                _remove(path)
                total -= size
        self._stored_bytes = total


def key_digest(key: str) -> str:
    """The name of an entry: SHA-256 of the key text, in hex."""
    return hashlib.sha256(key.encode()).hexdigest()


def pack_entry(name: str, value: bytes) -> bytes:
    checksum = hashlib.sha256(value).digest()
    return MAGIC + len(value).to_bytes(8, "little") + bytes.fromhex(name) + checksum + value


def unpack_entry(name: str, data: bytes) -> bytes | None:
    """The value of an entry's file, or None if it is not whole and the one of this name."""
    value = data[HEADER_BYTES:]
    return value if data[:HEADER_BYTES] == pack_entry(name, value)[:HEADER_BYTES] else None


def why_not_private(directory: Path) -> str | None:
    """Why a folder may not hold code of ours, or None when it may."""
    try:
        info = os.lstat(directory)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not stat.S_ISDIR(info.st_mode):
        return "is not a folder"
    if not hasattr(os, "getuid"):
        return None  # Windows: the profile folder's access list protects it.
    if info.st_uid != os.getuid():
        return f"belongs to user {info.st_uid}, not to you ({os.getuid()})"
    if stat.S_IMODE(info.st_mode) & 0o077:
        return f"has mode {stat.S_IMODE(info.st_mode):04o}, others can reach it (needs 0700)"
    return None


def _files(folder: str) -> list[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of the files of one folder."""
    found = []
    try:
        for file in os.scandir(folder):
            info = file.stat(follow_symlinks=False)
            found.append((info.st_mtime, info.st_size, Path(file.path)))
    except OSError:
        pass  # Another process removes entries meanwhile.
    return found


_WARNED: set[str] = set()


def _refuse(directory: Path, reason: str) -> bool:
    if str(directory) not in _WARNED:
        _WARNED.add(str(directory))
        warnings.warn(
            f"the cache folder {directory} {reason}; working without a disk cache", stacklevel=4
        )
    return False


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


@functools.cache
def _disk(directory: str, limit_mb: int) -> DiskCache:
    return DiskCache(directory, limit_mb << 20)


def disk_cache() -> DiskCache | None:
    """The cache folder of the settings, or None when it is switched off."""
    if not config.cache:
        return None
    return _disk(str(config.cache_dir), config.cache_limit_mb)
