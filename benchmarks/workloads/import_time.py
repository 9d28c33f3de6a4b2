"""Importing the framework in a new process, and numpy alone beside it."""

import subprocess
import sys

from workloads import Case

TITLE = "import in a new process, interpreter start included"


def cases():
    return {
        "framework": {"statement": "import {name}"},
        "framework, first sum": {"statement": "import {name} as t; t.ones(3).sum().item()"},
        "numpy alone": {"statement": "import numpy"},
    }


def build(torch, statement):
    command = [sys.executable, "-c", statement.format(name=torch.__name__)]

    def run():
        subprocess.run(command, check=True, capture_output=True)

    return Case(run, in_child=True)
