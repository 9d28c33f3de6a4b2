"""The package imports in a new process, without anything slow or large."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Loaded only when they are needed: each costs a large part of what the whole import may.
DEFERRED = (
    "llvmlite", "tqdm", "matplotlib", "hypothesis", "torch", "scipy",
    "numpy.random", "tempfile", "secrets", "multiprocessing", "asyncio",
    "rushlight.nn", "rushlight.optim", "rushlight.utils", "rushlight.cli",
    "rushlight.backends.llvm",
)  # fmt: skip


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_that_is_slow():
    code = f"""import sys, numpy
before = set(sys.modules)
import rushlight
print(sorted((set(sys.modules) - before) & set({DEFERRED!r})))"""
    assert run(code) == "[]"


def test_recording_loads_no_code_generator_and_the_first_look_does():
    code = """import sys
import rushlight as torch
x = torch.ones(3) * 2 + torch.arange(3)
y = (x @ x.reshape(3, 1)).sum()
print("llvmlite" in sys.modules)
print(y.item())
print("llvmlite" in sys.modules)"""
    assert run(code).splitlines() == ["False", "29.0", "True"]


def test_every_name_that_functional_promises_is_there():
    import rushlight as torch

    functional = torch.nn.functional
    assert [name for name in functional.__all__ if not hasattr(functional, name)] == []


def test_every_file_of_the_package_can_be_imported():
    """Also those that no test of this machine runs: a name that moved is found here."""
    files = sorted((ROOT / "rushlight").rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    wanted = [name for name in names if not name.endswith(("__main__", "_impl"))]
    code = f"""import importlib
for name in {wanted!r}:
    importlib.import_module(name.removesuffix(".__init__"))
print("done")"""
    assert run(code) == "done"
