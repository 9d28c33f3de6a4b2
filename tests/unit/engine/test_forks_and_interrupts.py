"""A fork while another thread computes; Ctrl-C during an update in place; the collector."""

import gc
import os
import signal
import threading
import time

import pytest

import rushlight as torch
from rushlight.engine.interrupts import Uninterrupted


@pytest.fixture(autouse=True)
def interrupts_are_on():
    """A run in the background of a shell starts with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_child_forked_in_the_middle_of_a_run_computes() -> None:
    stop = threading.Event()

    def busy() -> None:
        x = torch.ones(300, 300)
        while not stop.is_set():
            (x @ x).sum().item()

    thread = threading.Thread(target=busy)
    thread.start()
    time.sleep(0.2)
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a lock that stays shut ends here
                os._exit(0 if (torch.ones(20) * 3).sum().item() == 60 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_ctrl_c_is_seen_when_the_update_is_complete() -> None:
    steps = []
    try:
        with Uninterrupted(True):
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("inside")
        steps.append("never")
    except KeyboardInterrupt:
        steps.append("seen")
    assert steps == ["inside", "seen"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_updates_are_whole_after_ctrl_c() -> None:
    weights = [torch.zeros(300_000) for _ in range(3)]
    for weight in weights:
        weight += 1
    torch.flush()
    threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        for _ in range(10_000):
            for weight in weights:
                weight.add_(1)
            torch.flush()
    except KeyboardInterrupt:
        pass
    for weight in weights:
        assert weight.min().item() == weight.max().item()


def test_what_the_collector_runs_is_not_part_of_a_captured_call() -> None:
    def callback(*_: object) -> None:
        time.time()

    def work(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3000):
            [].append([])  # enough new containers for a collection
        kept = [[] for _ in range(3000)]
        return x * 2 + len(kept)

    gc.callbacks.append(callback)
    try:
        assert torch.compile(work, fullgraph=True)(torch.ones(2)).tolist() == [3002, 3002]
    finally:
        gc.callbacks.remove(callback)
