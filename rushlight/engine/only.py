"""The setting ONLY: which kernels, passes and lines DEBUG and DUMP speak of.

ONLY=k12           one kernel           ONLY=pass:expand*    passes by pattern
ONLY=train.py:87   what this user line became
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_LINE = re.compile(r".+:\d+$")


@dataclass(frozen=True)
class Only:
    """At most one field is set; none: everything passes."""

    kernel: str = ""
    passes: str = ""
    line: str = ""

    @classmethod
    def parse(cls, text: str) -> Only:
        text = text.strip()
        if text.startswith("pass:"):
            return cls(passes=text.removeprefix("pass:"))
        return cls(line=text) if _LINE.match(text) else cls(kernel=text)

    def allows_kernel(self, name: str, lines: Iterable[str]) -> bool:
        """For what concerns one kernel: its runs, its choices, its source."""
        if self.line:
            return any(is_line(line, self.line) for line in lines)
        return not self.passes and self.kernel in ("", name)

    def allows_pass(self, name: str) -> bool:
        """For what a pass did to the whole graph. Filters of kernels and lines let none through."""
        return not (self.kernel or self.line) and fnmatchcase(name, self.passes or "*")

    def allows_part(self, name: str, kernel: str, lines: Iterable[str]) -> bool:
        """For what a pass did to one kernel."""
        return fnmatchcase(name, self.passes) if self.passes else self.allows_kernel(kernel, lines)


def is_line(line: str, wanted: str) -> bool:
    """Is "/home/me/train.py:87" meant by "train.py:87"?"""
    return line == wanted or line.endswith("/" + wanted.removeprefix("./"))
