"""What is said of a name that is not there. Loaded when one is asked for.

A name that PyTorch has: MissingNameError, which is a NotImplementedError and an AttributeError, so
`hasattr` answers no. Any other name: AttributeError. Both name the nearest names that are there.
"""

from __future__ import annotations

import difflib
import sys

from rushlight.base.errors import MissingNameError
from rushlight.names.known import is_known
from rushlight.names.refused import REFUSED, stand_in_reason


def missing_name(module: str, name: str) -> AttributeError:
    """The error for `name`, asked of our module `module` ("rushlight.nn")."""
    theirs = "torch" + module.removeprefix("rushlight")
    reason = REFUSED.get(f"{theirs}.{name}") or REFUSED.get(theirs)
    if not reason and is_known(theirs, name):
        reason = stand_in_reason(theirs)
    if reason:
        return MissingNameError(f"{module}.{name} is not supported: {reason}")
    hint = _nearest(module, name)
    if is_known(theirs, name):
        return MissingNameError(f"{module}.{name} is not there yet{hint}")
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint}")


def _nearest(module: str, name: str) -> str:
    there = [other for other in dir(sys.modules[module]) if not other.startswith("_")]
    close = difflib.get_close_matches(name, there, n=2, cutoff=0.75)
    return f"; the nearest name is {' or '.join(close)}" if close else ""
