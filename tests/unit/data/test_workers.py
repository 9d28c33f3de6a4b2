"""DataLoader with worker processes: order, seeds, errors, dead workers, memory, Ctrl-C."""

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils import data
from rushlight.utils.data.transport import INLINE_BYTES


class Numbers(data.Dataset):
    def __init__(self, count=8):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


class Draws(Numbers):
    def __getitem__(self, index):
        return index, random.random(), np.random.rand(), torch.rand(()).item()


class Large(Numbers):
    """More than fits into a pipe: a tensor and an array of other sizes for every index."""

    def __getitem__(self, index):
        size = INLINE_BYTES + 100 * index
        return torch.full((size,), float(index)), np.full(size, index, np.int32)


class Slow(Numbers):
    def __getitem__(self, index):
        time.sleep(0.3 if index == 0 else 0.0)
        return index


class Failing(Numbers):
    def __init__(self, fail, at=3):
        super().__init__()
        self.fail, self.at = fail, at

    def __getitem__(self, index):
        if index == self.at:
            self.fail()
        return index


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 9, step))


class Refusing(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def keep(batch):
    return batch


def raise_key_error():
    raise KeyError("row three")


def raise_refusing():
    raise Refusing(1, 2)


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_once():
    os._exit(3)


def sleep_long():
    time.sleep(30)


def read(dataset, **options):
    batches = data.DataLoader(dataset, **options)
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in batches]


def draws_of(workers, seed=1, **options):
    torch.manual_seed(seed)
    loader = data.DataLoader(Draws(), batch_size=2, num_workers=workers, **options)
    return [[*map(float, row)] for batch in loader for row in zip(*batch, strict=True)]


def no_process_left(timeout=10):
    """Wait for the children of this process to go; say if they did."""
    end = time.monotonic() + timeout
    gc.collect()  # what an earlier test left in a cycle
    while multiprocessing.active_children() and time.monotonic() < end:
        time.sleep(0.05)
    return not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_order_is_that_of_the_sampler(workers):
    assert read(Slow(), batch_size=3, num_workers=workers) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert read(Slow(), batch_size=None, num_workers=workers) == [*range(8)]
    assert no_process_left()


def test_batches_come_as_they_are_ready_without_order():
    loader = data.DataLoader(Slow(), batch_size=1, num_workers=2, in_order=False)
    seen = [batch.item() for batch in loader]
    assert sorted(seen) == [*range(8)] and seen[0] != 0


def test_spawned_workers_give_the_same():
    options = {"batch_size": 4, "multiprocessing_context": "spawn"}
    assert read(Numbers(), num_workers=1, **options) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_draws_depend_on_the_pass_and_the_sample_only():
    one, two = draws_of(1), draws_of(2)
    assert one == two
    for column in (1, 2, 3):
        assert len({row[column] for row in one}) == 8, column
    assert draws_of(2, seed=2) != two
    torch.manual_seed(1)
    loader = data.DataLoader(Draws(), batch_size=2, num_workers=2, persistent_workers=True)
    passes = [[batch[3].tolist() for batch in loader] for _ in range(2)]
    assert passes[0] != passes[1]


def seed_numpy_only(worker_id):
    np.random.seed(7)


def test_a_seed_that_worker_init_fn_sets_stays():
    found = [batch[2].item() for batch in data.DataLoader(
        Draws(4), num_workers=1, worker_init_fn=seed_numpy_only)]  # fmt: skip
    np.random.seed(7)
    assert found == [np.random.rand() for _ in range(4)]


def test_iterable_dataset_is_shared_out():
    found = read(Stream(), batch_size=2, num_workers=2)
    assert sorted(n for batch in found for n in batch) == [*range(9)]
    assert found == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert read(Stream(), batch_size=2, num_workers=2, drop_last=True) == found[:4]


def test_info_is_there_in_workers_only():
    assert data.get_worker_info() is None
    loader = data.DataLoader(Numbers(2), num_workers=2, collate_fn=info_of)
    first, second = loader
    assert (first[0], second[0], first[1]) == (0, 1, 2) and second[2] == first[2] + 1


def info_of(batch):
    info = data.get_worker_info()
    return info.id, info.num_workers, info.seed


@pytest.mark.parametrize("fail,kind,text", [
    (raise_key_error, KeyError, "row three"), (raise_refusing, RuntimeError, "Caught Refusing"),
])  # fmt: skip
def test_errors_come_back_and_the_loader_goes_on(fail, kind, text):
    batches = iter(data.DataLoader(Failing(fail), batch_size=2, num_workers=2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(kind, match=text) as caught:
        next(batches)
    assert "in DataLoader worker process 1" in str(caught.value)
    assert f"in {fail.__name__}" in str(caught.value)  # the traceback of the worker
    assert [batch.tolist() for batch in batches] == [[4, 5], [6, 7]]


@pytest.mark.parametrize("fail,text", [
    (kill_self, "is killed by signal: Killed"), (exit_at_once, "exited unexpectedly"),
])  # fmt: skip
def test_dead_workers_are_reported(fail, text):
    with pytest.raises(RuntimeError, match=text):
        read(Failing(fail), batch_size=2, num_workers=2)
    assert no_process_left()
    assert len(read(Numbers(), num_workers=1)) == 8


@pytest.mark.slow  # a busy machine may take longer than the timeout to start a worker
def test_timeout_is_reported():
    with pytest.raises(RuntimeError, match="timed out after 0.5 seconds"):
        read(Failing(sleep_long, 0), num_workers=1, timeout=0.5)
    assert no_process_left()


def fail_to_start(worker_id):
    raise ValueError("no worker today")


def test_error_of_worker_init_fn_is_reported():
    with pytest.raises(ValueError, match="no worker today"):
        read(Numbers(), num_workers=1, worker_init_fn=fail_to_start)


def test_what_cannot_be_pickled_is_an_error_of_the_worker():
    with pytest.raises(Exception, match="(?i)pickle"):
        list(data.DataLoader(Numbers(), num_workers=1, collate_fn=lambda batch: lambda: batch))


def test_large_batches_share_files_and_arrays_stay_as_they_were():
    loader = data.DataLoader(Large(24), batch_size=2, num_workers=2, collate_fn=keep)
    batches = list(loader)
    for index, (tensor, array) in enumerate(sample for batch in batches for sample in batch):
        assert tensor.shape == (INLINE_BYTES + 100 * index,) == array.shape
        assert tensor.unique().tolist() == [index] and np.unique(array).tolist() == [index]


def test_leaving_early_ends_the_workers():
    batches = iter(data.DataLoader(Large(40), num_workers=2, prefetch_factor=4, collate_fn=keep))
    next(batches)
    del batches
    assert no_process_left()


def test_persistent_workers_are_the_same_processes():
    loader = data.DataLoader(Numbers(4), num_workers=2, persistent_workers=True, collate_fn=pids)
    first = [*loader]
    next(iter(loader))  # a pass that is dropped half way leaves nothing for the next one
    assert [*loader] == first and len({*first}) == 2
    assert pickle.loads(pickle.dumps(loader))._pool is None
    del loader
    assert no_process_left()


def pids(batch):
    return os.getpid()


@pytest.mark.slow  # forks of a process as large as a whole test run
def test_fork_after_threads_have_computed_is_safe():
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            (torch.ones(600, 600) @ torch.ones(600, 600)).sum().item()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(3):
            loader = data.DataLoader(Products(4), num_workers=2)
            assert [batch.item() for batch in loader] == [300.0**2 * n for n in range(4)]
    finally:
        stop.set()
        thread.join()


class Products(Numbers):
    def __getitem__(self, index):
        return (torch.full((300, 1), float(index)) @ torch.ones(1, 300)).sum().item()


SCRIPT = """
    import os, sys, time
    from rushlight.utils import data

    class Endless(data.Dataset):
        def __len__(self):
            return 1000
        def __getitem__(self, index):
            time.sleep(0.01)
            return os.getpid()

    if __name__ == "__main__":
        for number, batch in enumerate(data.DataLoader(Endless(), num_workers=2)):
            print(batch.item(), flush=True)
"""


def test_ctrl_c_ends_all_processes_and_prints_one_traceback(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    # A shell that runs tests in the background may ignore SIGINT; the script must not.
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                                 signal.default_int_handler),
    )  # fmt: skip
    workers = {int(process.stdout.readline()) for _ in range(4)}
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert error.count("Traceback") == 1 and error.rstrip().endswith("KeyboardInterrupt")
    time.sleep(0.2)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]


def test_workers_go_when_the_main_process_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    workers = {int(process.stdout.readline()) for _ in range(4)}
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while time.monotonic() < end and any(os.path.exists(f"/proc/{pid}") for pid in workers):
        time.sleep(0.2)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize("options,kind,text", [
    ({"num_workers": -1}, ValueError, "non-negative"),
    ({"prefetch_factor": 2}, ValueError, "num_workers > 0"),
    ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "prefetch_factor option should be"),
    ({"persistent_workers": True}, ValueError, "needs num_workers > 0"),
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    ({"multiprocessing_context": "fork"}, ValueError, "multi-process loading"),
    ({"multiprocessing_context": "no", "num_workers": 1}, ValueError, "valid start method"),
    ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "valid context object"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(options, kind, text):
    with pytest.raises(kind, match=text):
        data.DataLoader(Numbers(), **options)


def test_distributed_sampler_shares_out_one_order():
    parts = [data.DistributedSampler(range(10), 3, rank, seed=3) for rank in range(3)]
    found = [list(part) for part in parts]
    assert [len(part) for part in found] == [4, 4, 4]
    assert {*found[0], *found[1], *found[2]} == {*range(10)}
    parts[0].set_epoch(1)
    assert list(parts[0]) != found[0]
    assert len(data.DistributedSampler(range(10), 3, 0, drop_last=True)) == 3
    with pytest.raises(ValueError, match=r"interval \[0, 1\]"):
        data.DistributedSampler(range(10), 2, 5)
