"""From a new process to the end of the first compiled training step, with import and compilation.

`cold` starts with an empty cache folder each time, `warm` with the folder that the run before left.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from workloads import Case

TITLE = "first compiled GPT step in a new process, import included"

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
import importlib
torch = importlib.import_module(sys.argv[1])
from workloads.gpt import build_gpt, build_step
step = torch.compile(build_step(torch, build_gpt(torch)))
print(step().item())
"""

# Both frameworks keep compiled code on disk; each variable moves the folder of one.
CACHE_VARIABLES = ("RUSHLIGHT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def cases():
    return {"cold": {"warm": False}, "warm": {"warm": True}}


def build(torch, warm):
    kept = tempfile.TemporaryDirectory(prefix="bench-cache-")

    def start(folder):
        environ = {**os.environ, **dict.fromkeys(CACHE_VARIABLES, folder)}
        # An installed package has its bytecode; a checkout gets it in the first run.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        here = str(Path(__file__).resolve().parents[1])
        command = [sys.executable, "-c", SCRIPT, torch.__name__, here]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return float(done.stdout.split()[-1])

    def run():
        if warm:
            return start(kept.name)
        with tempfile.TemporaryDirectory(prefix="bench-cache-") as folder:
            return start(folder)

    return Case(run, in_child=True, most_reps=5)
