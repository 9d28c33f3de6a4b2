"""What compiled code depends on besides its text: the compiler's version, this CPU.

In: a command line. Out: texts for `caps.features`, so that a library of another compiler or for
another CPU is not found in a folder that machines share.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from pathlib import Path

from rushlight.compiler.target import Missing


@functools.cache
def version_of(command: tuple[str, ...]) -> str | Missing:
    """What the compiler says it is."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    except OSError as error:
        return Missing(f"the compiler {command[0]} does not start: {error}")
    if done.returncode:
        return Missing(f"the compiler {command[0]} fails: {done.stderr.strip()[:200]}")
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


@functools.cache
def cpu_flags() -> str:
    """Stands for the instructions of this CPU: code for another one must not be found."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    found = sorted({line for line in lines if line.startswith(("flags", "Features", "isa"))})
    return platform.machine() + hashlib.sha256("".join(found).encode()).hexdigest()[:16]
