"""The disk cache: whatever happens to its files, it gives the stored bytes or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from rushlight.runtime import cache as cache_module
from rushlight.runtime.cache import HEADER_BYTES, DiskCache, key_digest


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache", limit_bytes=1 << 20)


def entry_path(cache, key) -> Path:
    name = key_digest(key)
    return cache.directory / name[:2] / name


def test_gives_back_what_was_put(cache):
    cache.put("a", b"one")
    cache.put("b", b"")
    cache.put("a", b"two")
    assert cache.get("a") == b"two"
    assert cache.get("b") == b""
    assert cache.get("c") is None
    assert DiskCache(cache.directory, 1 << 20).get("a") == b"two"
    assert os.stat(cache.directory).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("at", [0, 9, 20, 60, HEADER_BYTES, -1])
def test_flipped_byte_is_a_miss_and_removed(cache, at):
    cache.put("a", b"some value")
    path = entry_path(cache, "a")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert cache.get("a") is None
    assert not path.exists()
    cache.put("a", b"again")
    assert cache.get("a") == b"again"


@pytest.mark.parametrize("length", [0, 7, HEADER_BYTES, HEADER_BYTES + 3])
def test_truncated_is_a_miss(cache, length):
    cache.put("a", b"some value")
    path = entry_path(cache, "a")
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get("a") is None
    assert not path.exists()


def test_entry_of_another_key_is_a_miss(cache):
    cache.put("a", b"of a")
    path = entry_path(cache, "b")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(entry_path(cache, "a").read_bytes())
    assert cache.get("b") is None


def test_bounded_and_least_recently_used_goes_first(tmp_path):
    cache = DiskCache(tmp_path / "c", limit_bytes=10 * (1000 + HEADER_BYTES))
    for i in range(10):
        cache.put(f"k{i}", bytes(1000))
        os.utime(entry_path(cache, f"k{i}"), (i, i))
    assert cache.get("k0") is not None  # touched: now the newest
    cache.put("k10", bytes(1000))
    assert cache.get("k0") is not None
    assert cache.get("k10") is not None
    assert cache.get("k1") is None
    total = sum(p.stat().st_size for p in cache.directory.rglob("*") if p.is_file())
    assert total <= cache.limit_bytes
    cache.put("huge", bytes(20000))
    assert cache.get("huge") is None


def test_reading_does_not_walk_through_the_folder(cache, monkeypatch):
    cache.put("a", b"one")
    monkeypatch.setattr(cache_module.os, "scandir", lambda path: pytest.fail(f"reads {path}"))
    assert DiskCache(cache.directory, 1 << 20).get("a") == b"one"


def test_size_of_a_large_cache_is_estimated_from_a_part(cache, monkeypatch):
    for i in range(1500):
        cache.put(f"key {i}", b"x" * (i % 7 * 10))
    files = [f for f in cache.directory.rglob("*") if f.is_file()]
    true = sum(f.stat().st_size for f in files)
    assert cache._estimate_total() == true  # fewer than the sample: exact
    monkeypatch.setattr(cache_module, "_SAMPLE", 300)
    seen = []
    part = cache_module._files
    monkeypatch.setattr(cache_module, "_files", lambda f: seen.append(f) or part(f))
    assert 0.8 * true < cache._estimate_total() < 1.25 * true
    assert len(seen) < 100  # of 256 folders


def test_an_estimate_that_was_too_high_makes_room_once(tmp_path, monkeypatch):
    """Else each process would look through all entries at its first put, and remove none."""
    cache = DiskCache(tmp_path / "c", 50 * (100 + HEADER_BYTES))
    for i in range(48):
        cache.put(f"key {i}", b"x" * 100)
    monkeypatch.setattr(DiskCache, "_estimate_total", lambda self: 2 * self.limit_bytes)
    for _ in range(2):
        DiskCache(cache.directory, cache.limit_bytes).put("one more", b"x" * 100)
        left = [f for f in cache.directory.rglob("*") if f.is_file()]
        assert len(left) <= cache_module.KEEP * 50


def test_first_put_of_a_process_evicts_what_others_left(tmp_path):
    large = DiskCache(tmp_path / "cache", 1 << 20)
    for i in range(50):
        large.put(f"key {i}", b"x" * 1000)
    DiskCache(tmp_path / "cache", 20_000).put("one more", b"y")
    left = [f for f in (tmp_path / "cache").rglob("*") if f.is_file()]
    assert 0 < sum(f.stat().st_size for f in left) <= 20_000


def test_temps_of_dead_writers_go(tmp_path):
    cache = DiskCache(tmp_path / "c", limit_bytes=1500)
    cache.put("a", bytes(600))
    temp = entry_path(cache, "a").parent / ".new-dead"
    temp.write_bytes(bytes(10))
    os.utime(temp, (1, 1))
    cache.put("b", bytes(600))
    cache.put("c", bytes(600))
    assert not temp.exists()


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_folder_open_to_others_is_refused_with_one_warning(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.warns(UserWarning, match="needs 0700"):
        cache = DiskCache(tmp_path, 1 << 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DiskCache(tmp_path, 1 << 20)
    cache.put("a", b"x")
    assert cache.get("a") is None
    assert not cache.usable
    assert list(tmp_path.iterdir()) == []


def test_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module.os, "getuid", lambda: 12345)
    (tmp_path / "c").mkdir(mode=0o700)
    with pytest.warns(UserWarning, match="belongs to user"):
        assert not DiskCache(tmp_path / "c", 1 << 20).usable


def test_link_to_a_folder_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.warns(UserWarning, match="is not a folder"):
        assert not DiskCache(tmp_path / "link", 1 << 20).usable


def test_place_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="cannot be made"):
        assert not DiskCache(tmp_path / "file" / "sub", 1 << 20).usable


@pytest.mark.parametrize("call", ["open", "replace"])
def test_full_or_read_only_disk_means_misses(cache, monkeypatch, call):
    cache.put("a", b"kept")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache_module.os, call, fail)
        cache.put("b", b"lost")
    assert cache.get("b") is None
    assert cache.get("a") == b"kept"
    assert not [p for p in cache.directory.rglob(".new-*")]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to read-only folders")
def test_read_only_folder_still_serves(cache):
    cache.put("a", b"kept")
    folders = [entry_path(cache, "a").parent, cache.directory]
    for folder in folders:
        folder.chmod(0o500)
    try:
        cache.put("b", b"lost")
        assert cache.get("a") == b"kept"
        assert cache.get("b") is None
    finally:
        for folder in folders:
            folder.chmod(0o700)


WRITER = """
import sys
from rushlight.runtime.cache import DiskCache
cache = DiskCache(sys.argv[1], 60_000)
bad = 0
for turn in range(300):
    for key in ("x", "y", f"k{turn % 40}"):
        cache.put(key, key.encode() * 1000 + sys.argv[2].encode())
        found = cache.get(key)
        bad += found is not None and found[:-1] != key.encode() * 1000
sys.exit(bad)
"""


def test_two_writers_never_see_a_torn_entry(tmp_path):
    folder = str(tmp_path / "c")
    children = [
        subprocess.Popen([sys.executable, "-c", WRITER, folder, name]) for name in ("1", "2")
    ]
    assert [child.wait(60) for child in children] == [0, 0]
    cache = DiskCache(folder, 60_000)
    cache.put("last", b"")
    time.sleep(0)
    total = sum(p.stat().st_size for p in cache.directory.rglob("*") if p.is_file())
    assert total <= 2 * 60_000
