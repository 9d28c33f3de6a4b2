"""What this machine can do at most, to hold the results of the workloads against.

    python benchmarks/peak.py [module]        # rushlight (default), torch or numpy

Prints the copy bandwidth of numpy, how fast all cores together read memory of several sizes (so
from different levels of the caches), and the best rate of a large float32 matrix product.
"""

import importlib
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def best_seconds(work, repetitions: int = 7) -> float:
    """The fastest of several runs: a peak is what the machine does when nothing disturbs."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def copy_bandwidth(size_bytes: int = 2**28) -> float:
    """GB/s of reading and writing, one thread."""
    source = np.ones(size_bytes // 4, np.float32)
    target = np.zeros_like(source)
    return 2 * size_bytes / best_seconds(lambda: np.copyto(target, source)) / 1e9


def read_bandwidth(size_bytes: int, threads: int | None = None, rounds: int = 5) -> float:
    """GB/s of reading so many bytes again and again, each thread its own part (numpy's dot)."""
    threads = threads or len(os.sched_getaffinity(0))
    parts = [np.ones(size_bytes // 4 // threads, np.float32) for _ in range(threads)]

    def read(part):
        for _ in range(rounds):
            np.dot(part, part)

    def read_all():
        readers = [threading.Thread(target=read, args=(part,)) for part in parts]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    return size_bytes / (best_seconds(read_all) / rounds) / 1e9


def matmul_rate(module: str, n: int = 2048) -> float:
    """GFLOP/s of an n x n x n product."""
    sys.path.insert(0, str(ROOT))
    framework = importlib.import_module(module)
    values = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    if framework is np:
        return 2 * n**3 / best_seconds(lambda: values @ values) / 1e9
    a = framework.from_numpy(values)
    return 2 * n**3 / best_seconds(lambda: (a @ a).numpy()) / 1e9


def main(module: str = "rushlight") -> int:
    print(f"numpy copy, one thread     {copy_bandwidth():8.1f} GB/s")
    for mib in (4, 32, 256):
        bandwidth = read_bandwidth(mib << 20)
        print(f"numpy reads of {mib:4} MiB, all  {bandwidth:8.1f} GB/s")
    for name in dict.fromkeys([module, "numpy"]):
        try:
            print(f"{name + ' matrix product':<26} {matmul_rate(name):8.1f} GFLOP/s")
        except Exception as error:
            print(f"{name} matrix product failed: {type(error).__name__}: {error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
