"""The thread pool and loaded plans, with tiny hand-written kernels."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import kernels
import llvmlite.binding as llvm
import numpy as np
import pytest
from kernels import CAPS, NO_INTS, addresses, call, executable, plan_of

import rushlight as torch
from rushlight.backends.llvm import pool
from rushlight.backends.llvm.plan import load
from rushlight.backends.llvm.pool_ir import pool_ir
from rushlight.base.dtypes import int32
from rushlight.compiler.target import HostCall, HostError
from rushlight.ir.symint import Var
from rushlight.ir.symint_math import ceildiv
from rushlight.runtime.threads import num_threads, set_num_threads

THREADS = [1, 2, 4]


@pytest.fixture(params=THREADS)
def threads(request):
    before = num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


@pytest.mark.parametrize("grain", [1, 7, 64, 1000])
def test_every_instance_runs_once_per_region(threads, grain):
    one = executable("add_one", instances=301, grain=grain)
    loaded = load(plan_of([[call(one, 0)]] * 200, size=301), CAPS)
    x = np.zeros(301, np.int64)
    for _ in range(5):
        assert loaded.run(addresses(x), NO_INTS, ()) == 0
    assert (x == 1000).all()


def test_region_of_several_calls_and_empty_launches(threads):
    sizes = [5, 0, 130, 1, 0]
    calls = [call(executable("add_one", instances=n, grain=4), i) for i, n in enumerate(sizes)]
    arrays = [np.zeros(max(n, 1) + 3, np.int64) for n in sizes]
    loaded = load(plan_of([calls] * 20, buffers=5), CAPS)
    loaded.run(addresses(*arrays), NO_INTS, ())
    for n, array in zip(sizes, arrays, strict=True):
        assert (array[:n] == 20).all()
        assert (array[n:] == 0).all()


def test_a_region_waits_for_the_last_unit_of_the_one_before(threads):
    """The last unit is slow and may be the worker's; the next region reads what it writes."""
    slow = executable("slow", instances=400, grain=100)
    local = executable("use_local", instances=400, grain=100, local_bytes=1 << 15)
    loaded = load(plan_of([[call(local, 0)], [call(slow, 0)]] * 50), CAPS)
    for _ in range(40):
        x = np.zeros(400, np.int64)
        loaded.run(addresses(x), NO_INTS, ())
        assert (x == np.arange(400) + 1).all()


def test_launches_of_one_executable_run_in_order(threads):
    # x = 0 -> id (use_local) -> id + 1: another order gives other numbers.
    both = executable("use_local", "add_one", instances=500, grain=3, local_bytes=1 << 15)
    short = executable("add_one", instances=500)
    x, y = np.full(500, 99, np.int64), np.zeros(500, np.int64)
    load(plan_of([[call(both, 0), call(short, 1)]], buffers=2), CAPS).run(
        addresses(x, y), NO_INTS, ()
    )
    assert (x == np.arange(500) + 1).all()
    assert (y == 1).all()


def test_local_scratch_is_private_and_grows(threads):
    for local_bytes in (1 << 15, 1 << 21):
        exe = executable("use_local", instances=5000, grain=5, local_bytes=local_bytes)
        x = np.zeros(5000, np.int64)
        load(plan_of([[call(exe, 0)]]), CAPS).run(addresses(x), NO_INTS, ())
        assert (x == np.arange(5000)).all()


@pytest.mark.parametrize("pause_s", [0, 0.003])
def test_workers_take_part(pause_s):
    """Also when they sleep: each thread writes the address of its scratch."""
    set_num_threads(2)
    who = executable("who", instances=4000, grain=10)
    x = np.zeros(4000, np.int64)
    loaded = load(plan_of([[call(who, 0)]]), CAPS)
    for _ in range(300):  # On a busy machine the worker may come late; it must come at all.
        time.sleep(pause_s)
        loaded.run(addresses(x), NO_INTS, ())
        if len(set(x.tolist())) == 2:
            return
    pytest.fail("the worker never claimed a unit")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes orders about processors")
@pytest.mark.skipif(num_threads() < 2, reason="needs two processors")
def test_a_worker_that_slept_wakes_elsewhere():
    """It may run on all processors that the caller may use but the one the caller is on."""
    allowed = os.sched_getaffinity(0)
    set_num_threads(2)
    try:
        loaded = load(plan_of([[call(executable("who", instances=4000, grain=10), 0)]]), CAPS)
        x = np.zeros(4000, np.int64)
        for cpu in sorted(allowed)[:2]:
            os.sched_setaffinity(0, {cpu})  # the caller moves here
            os.sched_setaffinity(0, allowed)
            for _ in range(100):  # On a busy machine it may move, and the worker sleep later.
                time.sleep(0.003)
                here = ctypes.CDLL(None).sched_getcpu()
                loaded.run(addresses(x), NO_INTS, ())
                [worker] = pool.get_pool()._workers
                if os.sched_getaffinity(worker.native_id) == allowed - {here}:
                    break
            else:
                pytest.fail("the worker may wake on the caller's processor")
        os.sched_setaffinity(0, {cpu})
        time.sleep(0.003)
        loaded.run(addresses(x), NO_INTS, ())  # nowhere else to go: all still runs
        assert (x != 0).all()
    finally:
        os.sched_setaffinity(0, allowed)


def test_failed_check_stops_the_plan(threads):
    bad = executable("set_status", instances=64)
    one = executable("add_one", instances=64)
    x = np.zeros(64, np.int64)
    loaded = load(plan_of([[call(one, 0)], [call(bad, 0)], [call(one, 0)]]), CAPS)
    assert loaded.run(addresses(x), NO_INTS, ()) == 5
    assert (x == 1).all()
    fine = load(plan_of([[call(one, 0)]]), CAPS)
    assert fine.run(addresses(x), NO_INTS, ()) == 0


def test_symbolic_sizes_and_scalars(threads):
    n, step = Var("n"), Var("step")
    exe = executable(
        "add_sizes",
        instances=ceildiv(n, 2),
        cost=n * 1000,
        local_bytes=n * 8,
        sizes=(step, n),
        params=(("s", int32),),
    )
    rows = Var("rows")
    plan = plan_of(
        [[call(exe, 0, (rows * 10 + 1, rows * 2), (1,)), call(exe, 1, (7, rows), (0,))]],
        buffers=2,
        variables=("other", "rows"),
    )
    loaded = load(plan, CAPS)
    for count in (3, 40, 3, 0):
        x, y = np.zeros(100, np.int64), np.zeros(100, np.int64)
        loaded.run(addresses(x, y), np.array([5, count]), (-2, 2**31))
        assert (x[:count] == count * 10 + 1 + 2**31 - 2**32).all()
        assert (x[count:] == 0).all()
        half = -(-count // 2)
        assert (y[:half] == 7 - 2).all()
        assert (y[half:] == 0).all()


def test_host_calls_split_the_plan(threads):
    n = Var("n")
    one = executable("add_one", instances=8)
    seen = []

    def double(inputs, outputs):
        assert not inputs[0].flags.writeable
        seen.append(inputs[0].shape)
        outputs[0][:] = inputs[0].ravel() * 2

    host = HostCall(double, (0,), (1,), ((2, n), (n * 2,)))
    plan = plan_of([[call(one, 0)], [host, call(one, 0)], [call(one, 1)]], 2, 8, ("n",))
    x, y = np.zeros(8, np.int64), np.zeros(8, np.int64)
    loaded = load(plan, CAPS)
    assert loaded.run(addresses(x, y), np.array([4]), ()) == 0
    assert (x == 2).all()
    assert (y == 5).all()
    assert seen == [(2, 4)]


def test_host_call_may_fail_or_run_its_own_plan(threads):
    one = executable("add_one", instances=64)
    x = np.zeros(64, np.int64)
    depth = []

    def again(inputs, outputs):
        if len(depth) == 3:
            raise ZeroDivisionError("from the host")
        depth.append(0)
        loaded.run(addresses(x), NO_INTS, ())

    loaded = load(plan_of([[call(one, 0)], [HostCall(again, (), (), ())], [call(one, 0)]]), CAPS)
    for _ in range(2):
        with pytest.raises(HostError, match="from the host") as raised:
            loaded.run(addresses(x), NO_INTS, ())
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        depth[:] = [0, 0, 0]
        assert (x >= 4).all()


def test_stress_many_small_runs(threads):
    one = executable("add_one", instances=9)
    loaded = load(plan_of([[call(one, 0)], [call(one, 0)]]), CAPS)
    x = np.zeros(9, np.int64)
    given = np.array(addresses(x))
    for turn in range(10_000):
        loaded.run(given, NO_INTS, ())
        if turn % 1000 == 0:
            time.sleep(0.001)  # Workers fall asleep, and must wake again.
    assert (x == 20_000).all()


def test_resizing_between_and_during_runs():
    one = executable("add_one", instances=100, grain=5)
    loaded = load(plan_of([[call(one, 0)]] * 10), CAPS)
    x = np.zeros(100, np.int64)
    stop = threading.Event()

    def resize():
        while not stop.is_set():
            for threads in (1, 3, 2):
                set_num_threads(threads)

    other = threading.Thread(target=resize)
    other.start()
    try:
        for _ in range(500):
            loaded.run(addresses(x), NO_INTS, ())
    finally:
        stop.set()
        other.join()
        set_num_threads(2)
    assert (x == 5000).all()
    alive = [t for t in threading.enumerate() if t.name.startswith("rushlight-worker")]
    assert len(alive) <= 1


@pytest.mark.parametrize("shared_plan", [True, False])
def test_python_threads_at_once(threads, shared_plan):
    exe = executable("use_local", "add_one", instances=400, grain=7, local_bytes=1 << 15)
    plan = plan_of([[call(exe, 0)]] * 5)
    common = load(plan, CAPS)
    wrong = []

    def work():
        loaded = common if shared_plan else load(plan, CAPS)
        x = np.zeros(400, np.int64)
        for _ in range(100):
            loaded.run(addresses(x), NO_INTS, ())
            if not (x == np.arange(400) + 1).all():
                wrong.append(x.copy())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_has_a_pool_of_its_own():
    set_num_threads(2)
    one = executable("add_one", instances=100)
    loaded = load(plan_of([[call(one, 0)]] * 10), CAPS)
    x = np.zeros(100, np.int64)
    loaded.run(addresses(x), NO_INTS, ())
    child = os.fork()
    if child == 0:
        loaded.run(addresses(x), NO_INTS, ())
        mine = pool.get_pool()
        good = (x == 20).all() and len(mine._workers) == 1 and mine._workers[0].is_alive()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loaded.run(addresses(x), NO_INTS, ())
    assert (x == 20).all()


EXIT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from kernels import *
from rushlight.backends.llvm.plan import load
from rushlight.backends.llvm.pool_ir import pool_ir
from rushlight.runtime.threads import set_num_threads
set_num_threads(4)
x = np.zeros(64, np.int64)
loaded = load(plan_of([[call(executable("add_one"), 0)]] * 10), CAPS)
loaded.run(addresses(x), NO_INTS, ())
assert (x == 10).all()
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("import time; time.sleep(0.01)", 0), ("raise SystemExit(3)", 3)],
)
def test_interpreter_exit_is_clean(end, code):
    script = EXIT.format(folder=str(Path(kernels.__file__).parent), end=end)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


CTRL_C = """
import os, signal, threading
slow = executable("slow", instances=1_000_000, grain=1000)
big = np.zeros(1_000_000, np.int64)
loaded = load(plan_of([[call(slow, 0)]] * 1000, size=1_000_000), CAPS)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    loaded.run(addresses(big), NO_INTS, ())
except KeyboardInterrupt:
    assert big.max() < 1000, "all regions ran first"
    loaded = load(plan_of([[call(executable("add_one"), 0)]]), CAPS)
    loaded.run(addresses(x), NO_INTS, ())
    raise SystemExit(0 if (x == 11).all() else 1)
raise SystemExit(2)
"""


def test_ctrl_c_is_seen_between_regions_of_a_long_program():
    script = EXIT.format(folder=str(Path(kernels.__file__).parent), end=CTRL_C)
    done = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("bad", [0, -1, 5000])
def test_set_num_threads_refuses(bad):
    with pytest.raises(RuntimeError, match="positive integer"):
        set_num_threads(bad)
    with pytest.raises(RuntimeError, match="expects an int, but got str"):
        set_num_threads("2")


def test_load_and_run_refuse_wrong_tables():
    one = executable("add_one", instances=8)
    with pytest.raises(ValueError, match="takes 1, 0, 0"):
        load(plan_of([[call(one, 0, (3,))]]), CAPS)
    loaded = load(plan_of([[call(one, 0)]]), CAPS)
    with pytest.raises(ValueError, match="1 pointers"):
        loaded.run([], NO_INTS, ())
    with pytest.raises(ValueError, match="not a variable"):
        sized = executable("add_sizes", sizes=(Var("k"),))
        load(plan_of([[call(sized, 0, (Var("z") * 2,))]]), CAPS)


def test_code_for_a_system_without_pthreads_compiles():
    triple = llvm.get_process_triple()
    text = pool_ir(triple, threads=False)
    machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
    engine = llvm.create_lljit_compiler(machine)
    builder = llvm.JITLibraryBuilder().add_ir(text).export_symbol("run_plan")
    assert builder.link(engine, "alone")["run_plan"]  # No outside symbol was needed.


def test_pool_code_for_other_machines_is_valid():
    for triple in ("aarch64-unknown-linux-gnu", "arm64-apple-darwin", "riscv64-unknown-linux"):
        llvm.parse_assembly(pool_ir(triple)).verify()


def test_settings_give_the_defaults():
    script = (
        "from rushlight.backends.llvm import pool\n"
        "made = pool.Pool.__init__\n"
        "pool.Pool.__init__ = lambda self, n, us: made(self, n, us) or print(n, us)\n"
        "pool.get_pool()"
    )
    env = dict(os.environ, RUSHLIGHT_NUM_THREADS="3", RUSHLIGHT_SPIN_US="7")
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "7"]


def test_public_set_num_threads_sizes_the_pool(threads):
    """A program that is worth sharing runs on as many threads as the user asked for."""
    pool.get_pool()
    torch.set_num_threads(threads + 1)
    assert torch.get_num_threads() == threads + 1
    assert pool.get_pool().threads == threads + 1
