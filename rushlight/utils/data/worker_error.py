"""An exception of a worker, told again in the main process with the worker's traceback."""

from __future__ import annotations

import sys
import traceback


class KeyErrorMessage(str):
    """A text that a KeyError shows as it is, with its line breaks."""

    def __repr__(self) -> str:
        """The text itself."""
        return str(self)


class WorkerError:
    """The exception that is handled now: its class and its traceback as text."""

    def __init__(self, where: str) -> None:
        kind, error, trace = sys.exc_info()
        assert kind is not None
        self.kind = kind
        self.text = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same class; a RuntimeError where its class refuses a text."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = KeyErrorMessage(message)
        try:
            error = self.kind(message)
        except Exception:  # a class with another constructor
            error = RuntimeError(message)
        raise error
