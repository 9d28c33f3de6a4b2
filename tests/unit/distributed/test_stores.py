"""Key-value stores, also between processes."""

import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from rushlight.distributed import (
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    TCPStore,
)

CHILD = """
import sys
from rushlight.distributed import FileStore, TCPStore
kind, place = sys.argv[1], sys.argv[2]
store = FileStore(place, 2) if kind == "file" else TCPStore("127.0.0.1", int(place), 2, False)
assert store.get("from parent") == b"1"
store.set("from child", "2")
store.add("count", 5)
"""


def make(kind, tmp_path):
    if kind == "hash":
        return HashStore()
    if kind == "file":
        return FileStore(str(tmp_path / "store"), 1)
    if kind == "prefix":
        return PrefixStore("p", HashStore())
    return TCPStore("127.0.0.1", 0, 1, is_master=True)


@pytest.mark.parametrize("kind", ["hash", "file", "tcp", "prefix"])
def test_store_answers_as_pytorchs(kind, tmp_path):
    store = make(kind, tmp_path)
    store.set_timeout(timedelta(milliseconds=30))
    store.set("a", "b")
    assert store.get("a") == b"b"
    assert (store.add("n", 3), store.add("n", -1), store.get("n")) == (3, 2, b"2")
    assert store.check(["a", "n"]) and not store.check(["a", "zz"])
    assert store.compare_set("u", "x", "y") == b"x"  # not there: only "" makes it
    assert not store.check(["u"])
    assert store.compare_set("u", "", "y") == b"y"
    assert store.compare_set("u", "no", "w") == b"y"
    assert store.compare_set("u", "y", "w") == b"w"
    store.append("u", "!")
    assert store.multi_get(["u", "a"]) == [b"w!", b"b"]
    assert store.delete_key("a") and not store.delete_key("a")
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert [store.queue_pop("q"), store.queue_pop("q")] == [b"1", b"2"]
    with pytest.raises(QueueEmptyError):
        store.queue_pop("q", block=False)
    with pytest.raises(DistStoreError, match="[Ww]ait timeout"):
        store.get("never")
    with pytest.raises(RuntimeError):
        store.wait(["never"], timedelta(milliseconds=5))
    assert any(key.endswith("u") for key in store.list_keys())


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_store_is_shared_with_another_process(kind, tmp_path):
    store = make(kind, tmp_path)
    place = store.path if kind == "file" else str(store.port)
    child = subprocess.Popen([sys.executable, "-c", CHILD, kind, place])
    try:
        store.set("from parent", "1")
        store.set_timeout(timedelta(seconds=60))
        assert store.get("from child") == b"2"
        assert child.wait(60) == 0
    finally:
        child.kill()
    assert store.add("count", 1) == 6


def test_a_waiting_thread_is_woken():
    store, found = HashStore(), []
    thread = threading.Thread(target=lambda: found.append(store.get("late")))
    thread.start()
    store.set("late", "x")
    thread.join(10)
    assert found == [b"x"]


def test_nobody_serves_the_store():
    with pytest.raises(DistNetworkError, match="timed out"):
        TCPStore("127.0.0.1", 1, 2, False, timeout=timedelta(milliseconds=100))


@pytest.mark.parametrize("make", [HashStore, lambda: TCPStore("127.0.0.1", 0, 1, True)])
def test_adding_to_a_text_is_an_error_of_that_call_only(make):
    store = make()
    store.set("a", "text")
    with pytest.raises(ValueError, match="invalid literal"):
        store.add("a", 1)
    assert store.get("a") == b"text" and store.add("b", 2) == 2


def test_the_port_is_taken():
    first = TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(DistNetworkError, match="failed to listen"):
        TCPStore("127.0.0.1", first.port, 1, True)
