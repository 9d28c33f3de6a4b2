"""Importing the framework in a new process, and numpy alone beside it."""

import subprocess
import sys

from workloads import Case

TITLE = "import in a new process, interpreter start included"


def cases():
    return {"framework": {"alone": False}, "numpy alone": {"alone": True}}


def build(torch, alone):
    statement = f"import {'numpy' if alone else torch.__name__}"

    def run():
        subprocess.run([sys.executable, "-c", statement], check=True)

    return Case(run, in_child=True)
