"""Measure the workloads on Rushlight and, where they are installed, on PyTorch and JAX, in turn.

`benchmarks/README.md` says what is measured and how. A workload that fails on one framework is
reported with its reason, and the run goes on.
"""

import argparse
import importlib.util
import json
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import report
import workloads

HERE = Path(__file__).resolve().parent

# Names of the module and what the report calls it.
RUSHLIGHT, TORCH, JAX = "rushlight", "torch", "jax"


class Failed(Exception):
    """A framework cannot run this workload; the text says why."""


@dataclass
class Measured:
    """What one framework did with one case."""

    first_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    # The processor's time, of all threads: it says more than `seconds` on a loaded machine.
    first_cpu_s: float = 0.0
    cpu_seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    # Memory of the first run above inputs and results.
    extra_mb: float | None = None
    work: dict[str, float] = field(default_factory=dict)
    failed: str = ""

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def median_cpu_s(self) -> float:
        return statistics.median(self.cpu_seconds)


class Worker:
    """A process of `worker.py` with one framework and one case."""

    def __init__(self, python: str, module: str, workload: str, case: str, args):
        self.timeout_s = args.timeout
        environ = dict(os.environ)
        self.caches = tempfile.TemporaryDirectory() if args.cold else None
        if self.caches is not None:
            for name in ("RUSHLIGHT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
                environ[name] = self.caches.name
        if args.threads:
            for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RUSHLIGHT_NUM_THREADS"):
                environ[name] = str(args.threads)
            environ["NPROC"] = str(args.threads)  # JAX asks this one
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), module, workload, case],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environ,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            built = self._answer()
        except Failed:
            self.close()
            raise
        self.work: dict[str, float] = built["work"]
        self.most_reps: int | None = built["most_reps"]

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def _answer(self) -> dict:
        try:
            line = self.lines.get(timeout=self.timeout_s)
        except queue.Empty:
            raise Failed(f"no answer within {self.timeout_s:.0f} s") from None
        if not line:
            raise Failed(f"process ended with {self.process.wait()}: {self._last_error()}")
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply

    def _last_error(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else "no message"

    def ask(self, request: str) -> dict:
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # _answer gives the reason
        return self._answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()
        if self.caches is not None:
            self.caches.cleanup()


def start_workers(frameworks: dict[str, str], workload: str, case: str, args, results) -> dict:
    """A worker for each framework that can build the case; the others get their reason."""
    workers = {}
    for module, python in frameworks.items():
        if module == JAX and not workloads.has_jax(workload, case):
            continue
        results[module] = Measured()
        try:
            workers[module] = Worker(python, module, workload, case, args)
            results[module].work = workers[module].work
        except Failed as failure:
            results[module].failed = str(failure)
    return workers


def take_turn(worker: Worker, measured: Measured, repetition: int) -> None:
    """One repetition of one framework, entered in its results."""
    # Worker threads of the other framework may spin for a moment after their turn.
    time.sleep(0.02)
    reply = worker.ask("run")
    seconds = reply["seconds"]
    if repetition == 0:
        measured.first_s, measured.first_cpu_s = seconds, reply["cpu"]
        measured.extra_mb = reply["extra_mb"]
    elif repetition > 1:
        # The second run may still compile, for sizes seen twice; it is not counted.
        measured.seconds.append(seconds)
        measured.cpu_seconds.append(reply["cpu"])


def measure(frameworks: dict[str, str], workload: str, case: str, args) -> dict[str, Measured]:
    """All repetitions of one case, the frameworks in turn."""
    results: dict[str, Measured] = {}
    workers = start_workers(frameworks, workload, case, args, results)
    reps = min([args.reps, *(w.most_reps for w in workers.values() if w.most_reps)])
    try:
        for repetition in range(reps + 2):
            for module, worker in workers.items():
                if results[module].failed:
                    continue
                try:
                    take_turn(worker, results[module], repetition)
                    results[module].peak_mb = worker.ask("memory")["peak_mb"]
                except Failed as failure:
                    results[module].failed = str(failure)
    finally:
        for worker in workers.values():
            worker.close()
    return results


def compare(frameworks: dict[str, str], workload: str, case: str, args) -> str:
    """Run a case once on each framework and compare all values; gives the verdict."""
    results: dict[str, Measured] = {}
    workers = start_workers(frameworks, workload, case, args, results)
    try:
        with tempfile.TemporaryDirectory() as folder:
            values, tolerance = {}, 0.0
            for module, worker in workers.items():
                path = f"{folder}/{module}.npz"
                try:
                    tolerance = worker.ask(f"values {path}")["tolerance"]
                except Failed as failure:
                    results[module].failed = str(failure)
                    continue
                with np.load(path) as file:
                    values[module] = [file[name] for name in file.files]
    finally:
        for worker in workers.values():
            worker.close()
    reasons = [f"{m} failed: {r.failed}" for m, r in results.items() if r.failed]
    if reasons:
        return "; ".join(reasons)
    if len(values) < 2:
        return "nothing to compare with"
    ours, *others = values.values()
    error = max(relative_error(ours, theirs) for theirs in others)
    verdict = "agree" if error <= tolerance else "DIFFER"
    return f"{verdict}: largest difference {error:.1e} of the largest value, bound {tolerance:.0e}"


def relative_error(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Largest difference of any pair of arrays, relative to the largest value of the array."""
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        return float("inf")
    errors = [0.0]
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-12)
        difference = np.abs(a - b).max(initial=0.0) / scale
        errors.append(float("inf") if np.isnan(difference) else float(difference))
    return max(errors)


def find_frameworks(args) -> dict[str, str]:
    """The modules to measure, with the Python that has them."""
    frameworks = {} if args.no_rushlight else {RUSHLIGHT: sys.executable}
    if not args.no_torch:
        if args.torch_python or importlib.util.find_spec(TORCH) is not None:
            frameworks[TORCH] = args.torch_python or sys.executable
        else:
            print("PyTorch is not installed here (see --torch-python)")
    if args.jax_python or importlib.util.find_spec(JAX) is not None:
        frameworks[JAX] = args.jax_python or sys.executable
    return frameworks


def chosen_cases(only: str | None) -> list[tuple[str, str]]:
    """(workload, case) pairs whose 'workload/case' contains one of the words, with commas."""
    pairs = [(name, case) for name in workloads.NAMES for case in workloads.load(name).cases()]
    words = [""] if only is None else only.split(",")
    return [pair for pair in pairs if any(word in "/".join(pair) for word in words)]


def machine() -> dict[str, str]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def measure_peaks(threads: int) -> dict[str, float]:
    """What this machine can do at most, in a process of its own; empty where that fails."""
    command = [sys.executable, str(HERE / "peak.py"), "--json"]
    command += ["--threads", str(threads)] if threads else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"no peaks: {done.stderr.strip().splitlines()[-1]}")
        return {}
    return json.loads(done.stdout)


def parse(argv: list[str] | None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", help="cases whose 'workload/case' contains this word (or one of a,b,c)")
    add("--reps", type=int, default=7, help="counted repetitions (a median needs 5)")
    add("--check", action="store_true", help="compare the values instead of the times")
    add("--no-torch", action="store_true", help="Rushlight alone")
    add("--no-rushlight", action="store_true", help="PyTorch alone")
    add("--torch-python", help="a Python that has PyTorch, if this one has not")
    add("--jax-python", help="the same for JAX, a rival in a few cases")
    add("--threads", type=int, default=0, help="threads of both (0: all cores)")
    add("--timeout", type=float, default=300.0, help="seconds for one repetition")
    add("--cold", action="store_true", help="empty caches of compiled code for every case")
    add("--out", type=Path, default=Path("out/bench"), help="folder of the results")
    add("--list", action="store_true", help="list the cases")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    cases = chosen_cases(args.only)
    if args.list or not cases:
        every = cases or chosen_cases(None)
        print("\n".join(f"{w}/{c}: {workloads.load(w).TITLE}" for w, c in every))
        return 0 if args.list else 2
    frameworks = find_frameworks(args)
    if args.check:
        verdicts = [compare(frameworks, *case, args) for case in cases]
        for case, verdict in zip(cases, verdicts, strict=True):
            print(f"{'/'.join(case):<32} {verdict}")
        return 1 if any("DIFFER" in verdict for verdict in verdicts) else 0

    rows, peaks = [], measure_peaks(args.threads)
    print(report.peaks_line(peaks), report.HEADER, sep="\n")
    for workload, case in cases:
        measured = measure(frameworks, workload, case, args)
        goal = workloads.goal(workload, case)
        rows.append(
            {"workload": workload, "case": case, "goal": goal, "peaks": peaks, "results": measured}
        )
        print(report.line(rows[-1]), flush=True)
    print(*report.growth_lines(rows), sep="\n")
    args.out.mkdir(parents=True, exist_ok=True)
    written = report.write(args.out, rows, machine(), asdict)
    print("\nwritten: " + ", ".join(str(path) for path in written))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
