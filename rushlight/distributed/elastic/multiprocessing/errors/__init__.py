"""`record`: a program's error goes to the file that its launcher named.

A launcher reads the file named by the variable TORCHELASTIC_ERROR_FILE.
"""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.base.config import child_environment
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]
VARIABLE = "TORCHELASTIC_ERROR_FILE"


class ErrorHandler:
    """Writes an error as JSON: message, call stack, time."""

    def _path(self) -> str | None:
        return child_environment().get(VARIABLE)

    def initialize(self) -> None:
        """Before the program runs."""

    def record_exception(self, e: BaseException) -> None:
        """Write the error, where a file was named."""
        path = self._path()
        if path is None:
            return
        text = "".join(traceback.format_exception(e))
        stamp = str(int(time.time()))
        extra = {"py_callstack": text, "timestamp": stamp}
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
        Path(path).write_text(json.dumps({"message": message}), encoding="utf-8")


def get_error_handler() -> ErrorHandler:
    """A new handler; it writes where TORCHELASTIC_ERROR_FILE says."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that ended with an error: its number, and what its error file says."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: Any = field(init=False)
    message: str = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.timestamp = {}, int(time.time())
        self.message = f"exitcode {self.exitcode} (pid: {self.pid})"
        if os.path.isfile(self.error_file):
            self.error_file_data = json.loads(Path(self.error_file).read_text(encoding="utf-8"))
            self.message = self.error_file_data["message"]
            if isinstance(self.message, dict):
                self.timestamp = int(self.message["extraInfo"]["timestamp"])

    def signal_name(self) -> str:
        """The signal that ended it, by number."""
        return f"signal {-self.exitcode}" if self.exitcode < 0 else "<N/A>"


class ChildFailedError(Exception):
    """Processes that a launcher started have failed."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError("ChildFailedError: failures is empty")
        rank, first = self.get_first_failure()
        lines = [f"{name} FAILED", f"rank {rank}, {first.message}"]
        super().__init__("\n".join(lines))

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The number and failure of the process that failed first."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """A decorator of a program's main function: its error is written, and raised on."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code not in (0, None):
                handler.record_exception(end)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
