"""What Rushlight's own code costs, beside the budgets that the design gives it.

    python benchmarks/budgets.py

Microseconds, the least of some repetitions, with data so small that kernels cost next to nothing.
Of the processor's time, on one thread:

    record   one operation (budget 10)
    find     a program that is known, for each node of the graph that waits (budget 3)
    replay   a compiled call, its kernels included (budget 30 beyond them)

Of the clock's time, on two threads where there are two processors:

    launch   a kernel for all threads, beyond its share of the work, while workers spin (budget 3):
             what it takes more than half of the time on one thread
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rushlight as torch  # noqa: E402
from rushlight.backends.llvm import executor  # noqa: E402

OPS, REPETITIONS = 60, 200
BUDGETS = {"record": 10.0, "find, per node": 3.0, "replay": 30.0, "launch": 3.0}


def least_us(run, prepare=lambda: None, clock=time.process_time_ns) -> float:
    """Of one run; `prepare` comes before each and is not counted."""
    times = []
    for _ in range(REPETITIONS):
        prepare()
        began = clock()
        run()
        times.append(clock() - began)
    return min(times) / 1e3


def chain(x, y):
    """OPS operations; nothing is computed."""
    for _ in range(OPS // 3):
        x = (x * y + x) - y
    return x


def turns(x):
    """OPS kernels, each of which needs all of the one before."""
    for _ in range(OPS // 2):
        x = x.softmax(0).softmax(1)
    return x


def launch_us() -> float:
    """A kernel's time on two threads, less half of its time on one."""
    x, run = torch.linspace(0.0, 1.0, 128 * 64).reshape(128, 64), torch.compile(turns)
    torch.set_num_threads(2)
    for _ in range(5):
        run(x)
    limits = executor.PROGRAM_SHARE_PS, executor.REGION_SHARE_PS
    found = []
    try:
        for limit in (1 << 62, 0):  # share nothing; share whatever is small
            executor.PROGRAM_SHARE_PS = executor.REGION_SHARE_PS = limit
            found.append(least_us(lambda: run(x), clock=time.perf_counter_ns))
    finally:
        executor.PROGRAM_SHARE_PS, executor.REGION_SHARE_PS = limits
    alone, shared = found
    return (shared - alone / 2) / OPS


def measure() -> dict[str, float]:
    torch.set_num_threads(1)
    x, y = torch.linspace(0.0, 1.0, 16), torch.linspace(1.0, 2.0, 16)
    torch.flush()
    waiting: list = []

    def record() -> None:
        waiting[:] = [chain(x, y)]

    for _ in range(5):  # the program is known from here on
        record()
        torch.flush()
    found = {"record": least_us(record, torch.flush) / OPS}
    found["find, per node"] = least_us(torch.flush, record) / OPS
    replayed = torch.compile(chain)
    for _ in range(5):
        replayed(x, y)
    found["replay"] = least_us(lambda: replayed(x, y))
    if len(os.sched_getaffinity(0)) > 1:
        found["launch"] = launch_us()
    return found


def main() -> int:
    for name, us in measure().items():
        print(f"{name:<16} {us:6.2f} us, budget {BUDGETS[name]:g}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
