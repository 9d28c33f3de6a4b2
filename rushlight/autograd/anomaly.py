"""Anomaly mode: which line of the user's forward pass an error of the backward pass comes from.

In: a gradient function that was made while the mode was on, and the gradients that reach it. Out:
its own gradients; or its error, or an error for a NaN, with the traceback of the forward call.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rushlight.autograd.mode import STATE

PACKAGE = str(Path(__file__).parents[1])
UNKNOWN = (
    "Error detected in {}. No forward pass information available. Enable detect anomaly during "
    "forward pass for more information."
)


def forward_call() -> list[str]:
    """The traceback of the call that is recorded now, without this package's frames."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(PACKAGE)]
    return traceback.format_list(frames)


def watched(fn: Any, grads: list[Any], create_graph: bool) -> Sequence[Any]:
    """`fn.apply(grads)`; its errors, and NaN that was not there before, name the forward line."""
    try:
        outputs = fn.apply(grads, create_graph)
    except Exception:
        tell(fn)
        raise
    if STATE.check_nan:
        for number, grad in enumerate(outputs):
            if grad is not None and grad.dtype.is_inexact and bool(grad.isnan().any()):
                tell(fn)
                raise RuntimeError(
                    f"Function '{fn.name()}' returned nan values in its {number}th output."
                    f"{_place(fn)}"
                )
    return outputs


def tell(fn: Any) -> None:
    """Warn with the traceback of the forward call."""
    found = (fn.metadata_ or {}).get("traceback_")
    text = UNKNOWN.format(fn.name())
    if found:
        lines = "".join(found)
        text = f"Error detected in {fn.name()}. Traceback of forward call that caused the error:\n"
        text += lines
    warnings.warn(text, stacklevel=2)


def _place(fn: Any) -> str:
    """Where the call was recorded, in a few words."""
    found = (fn.metadata_ or {}).get("traceback_")
    return f" It was recorded here:\n{found[-1].rstrip()}" if found else ""
