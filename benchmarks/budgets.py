"""What Rushlight's own code costs, beside the budgets that the design gives it.

    RUSHLIGHT_NUM_THREADS=1 python benchmarks/budgets.py

Microseconds of the processor's time, the least of some repetitions, with data so small that kernels
cost next to nothing:

    record   one operation (budget 10)
    find     a program that is known, for each node of the graph that waits (budget 3)
    replay   a compiled call, its kernels included (budget 30 beyond them)
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rushlight as torch  # noqa: E402

OPS, REPETITIONS = 60, 200
BUDGETS = {"record": 10.0, "find, per node": 3.0, "replay": 30.0}


def least_us(run, prepare=lambda: None) -> float:
    """Of one run; `prepare` comes before each and is not counted."""
    times = []
    for _ in range(REPETITIONS):
        prepare()
        began = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - began)
    return min(times) / 1e3


def chain(x, y):
    """OPS operations; nothing is computed."""
    for _ in range(OPS // 3):
        x = (x * y + x) - y
    return x


def measure() -> dict[str, float]:
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
    return found


def main() -> int:
    for name, us in measure().items():
        print(f"{name:<16} {us:6.2f} us, budget {BUDGETS[name]:g}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
