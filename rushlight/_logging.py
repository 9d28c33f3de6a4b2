"""torch._logging: what `compile` prints of its work. `set_logs` does what TORCH_LOGS does.

In: names of logs. Out: lines on standard error (`tensors/compile_report.py` has their form). Other
logs of PyTorch (`base/log_names.py`) print nothing: they tell of parts that are not here.
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.base.config import config
from rushlight.base.log_names import LEVELS, PARTS

__all__ = ["set_logs"]

_WORDS = {"logs": ""}


def set_logs(
    *,
    all: int | None = None,  # noqa: A002  (PyTorch's name)
    dynamo: int | None = None,
    recompiles: bool = False,
    graph_breaks: bool = False,
    modules: Any = None,
    **others: Any,
) -> None:
    """From now on `compile` prints these logs; what is not named is off.

    recompiles: calls that were compiled before and are again, with the guard that failed;
    graph_breaks: calls that run as ordinary lazy code, and why; dynamo, all (a level of Python's
    logging): both, and every first compilation. Where TORCH_LOGS is set, the call only warns.

    TypeError for a name that is no log of PyTorch's.

    >>> import rushlight as torch
    >>> torch._logging.set_logs(recompiles=True)
    >>> torch._logging.set_logs()
    """
    for name in others:
        if name not in LEVELS | PARTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
    if config.outside("logs"):
        warnings.warn(
            "Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs",
            stacklevel=2,
        )
        return
    named = {"recompiles": recompiles, "graph_breaks": graph_breaks}
    named["dynamo"] = any(level is not None and level <= _DEBUG_AND_INFO for level in (all, dynamo))
    _WORDS["logs"] = ",".join(word for word, wanted in named.items() if wanted)


# Levels of `logging` whose lines tell of single compilations.
_DEBUG_AND_INFO = 20

config.tell("logs", lambda: _WORDS["logs"] or config.outside("logs"))
