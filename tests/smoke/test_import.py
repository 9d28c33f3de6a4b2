"""The package imports in a new process, without anything slow or large."""

import subprocess
import sys

# Loaded only when they are needed: each costs more than the whole import may.
DEFERRED = ("llvmlite", "tqdm", "matplotlib", "hypothesis", "torch", "scipy")


def test_import_loads_nothing_that_is_slow():
    code = f"import sys, rushlight; print(sorted(set(sys.modules) & set({DEFERRED!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
