"""One process that runs one workload on one framework, a repetition at a time, on request.

In: the names of the module, the workload and the case as arguments; then requests, one word a line:

    run           one repetition; answers its seconds, those of the processor, and the most memory
                  that it held in MiB above what was there before and its results
    values PATH   one repetition; writes all its values to PATH (.npz) for comparison
    memory        answers the highest resident memory in MiB so far
    (end of input ends the process)

Out: one JSON object a line on standard output. An exception is answered as {"error": text}, and
the process goes on. What the framework itself prints goes to standard error.
"""

import functools
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import workloads

JAX = "jax"
ROOT = Path(__file__).resolve().parents[1]


def flatten(result) -> list:
    """The results of a run as a list."""
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def finish(result, torch=None) -> list[np.ndarray]:
    """Make all results exist in memory: nothing that is only promised counts as done."""
    return [x if isinstance(x, float) else as_numpy(x, torch) for x in flatten(result)]


def as_numpy(x, torch) -> np.ndarray:
    """The memory of a tensor; numpy has no bfloat16, so its bits are seen as integers."""
    if not hasattr(x, "detach"):
        return np.asarray(x)  # an array of JAX
    x = x.detach()
    return x.view(torch.int16).numpy() if torch and x.dtype == torch.bfloat16 else x.numpy()


def read_all(arrays: list) -> float:
    """Read every element of every result, outside the timed region."""
    return sum(float(np.sum(array, dtype=np.float64)) for array in arrays)


def timed_run(case: workloads.Case, module: str) -> dict:
    before = memory_now(module)
    torch = importlib.import_module(module)
    began, cpu_began = time.perf_counter(), cpu_seconds()
    arrays = finish(case.run(), torch)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_began
    results = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    extra = None if before is None else max(0, memory_peak(module) - before - results) / 2**20
    return {"seconds": seconds, "cpu": cpu, "sum": read_all(arrays), "extra_mb": extra}


def cpu_seconds() -> float:
    """Time of all threads of this process and of children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def memory_now(module: str) -> int | None:
    """Bytes in use; from here on `memory_peak` counts. None where the system does not say.

    A framework that counts its own memory is asked, since a resident set also holds the compiler.
    """
    if module == "rushlight":
        memory = importlib.import_module("rushlight.runtime.buffer")
        memory.reset_peak()
        return memory.memory_allocated()
    if not Path("/proc/self/clear_refs").exists():
        return None
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def memory_peak(module: str) -> int:
    """The most bytes in use at once since `memory_now`."""
    if module == "rushlight":
        return importlib.import_module("rushlight.runtime.buffer").max_memory_allocated()
    return _status_bytes("VmHWM")


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def write_values(case: workloads.Case, path: str) -> dict:
    result = case.run()
    values = finish(case.values(result) if case.values else result)
    np.savez(path, *values)
    return {"count": len(values), "tolerance": case.tolerance}


def peak_memory_mb(case: workloads.Case) -> float:
    """Highest resident set of this process, or of its children where they do the work."""
    # Not on every system; its absence must not stop the times.
    resource = importlib.import_module("resource")
    who = resource.RUSAGE_CHILDREN if case.in_child else resource.RUSAGE_SELF
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(who).ru_maxrss / unit


def answer(case: workloads.Case, module: str, request: str) -> dict:
    word, _, argument = request.partition(" ")
    if word == "run":
        return timed_run(case, module)
    if word == "values":
        return write_values(case, argument)
    if word == "memory":
        return {"peak_mb": peak_memory_mb(case)}
    raise ValueError(f"unknown request {request!r}")


def guarded(work) -> dict:
    try:
        return work()
    except Exception as error:
        text = str(error).strip().splitlines()
        return {"error": f"{type(error).__name__}: {text[0] if text else ''}"}


def build(module: str, workload: str, case: str) -> workloads.Case:
    framework = importlib.import_module(module)
    definition = workloads.load(workload)
    make = definition.build_jax if module == JAX else definition.build
    return make(framework, **definition.cases()[case])


def main(module: str, workload: str, case_name: str) -> int:
    # The protocol keeps the real standard output; prints of the framework must not mix with it.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path.insert(0, str(ROOT))
    built: list[workloads.Case] = []

    def prepare() -> dict:
        case = build(module, workload, case_name)
        built.append(case)
        return {"work": case.work, "most_reps": case.most_reps}

    print(json.dumps(guarded(prepare)), file=out)
    for line in sys.stdin:
        if not built:
            break
        reply = guarded(functools.partial(answer, built[0], module, line.strip()))
        print(json.dumps(reply), file=out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
