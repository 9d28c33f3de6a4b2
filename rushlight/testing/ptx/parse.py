"""PTX text as instructions.

In: PTX. Out: of each kernel its parameters, its instructions with the numbers of those that
their labels name. Always true: registers and labels of a block in braces get names of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LABEL = re.compile(r"^([$\w]+):\s*(.*)$", re.S)
_LABELS = re.compile(r"\s*(?:[$\w]+:\s*)*")
_GUARD = re.compile(r"^@(!?)(%?\w+)\s+(.*)$", re.S)
_PARAM = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\w+)(?:\[(\d+)\])?")
_SIZES = {"u32": 4, "u64": 8, "b32": 4, "b64": 8, "f32": 4, "s32": 4, "u8": 1, "b8": 1}


@dataclass(frozen=True)
class Instruction:
    """`op`: split at its dots. `guard`: (register, is it negated)."""

    op: tuple[str, ...]
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None
    text: str


@dataclass
class Kernel:
    """params: name -> bytes. threads: of a group."""

    name: str
    params: dict[str, int]
    threads: int
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(ptx: str) -> list[Kernel]:
    """The kernels of a module, in the order of their text."""
    text = re.sub(r"//[^\n]*", "", ptx)
    return [_kernel(part) for part in text.split(".visible .entry")[1:]]


def _kernel(text: str) -> Kernel:
    head, body = text.split("\n{", 1)
    params = {
        name: int(count) if count else _SIZES[kind] for kind, name, count in _PARAM.findall(head)
    }
    threads = int(re.findall(r"\.reqntid\s+(\d+)", head)[0])
    kernel = Kernel(head.split("(")[0].strip(), params, threads)
    _Reader(kernel).block(body[: body.rindex("\n}")])
    return kernel


class _Reader:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.blocks = kernel, 0

    def block(self, text: str) -> None:
        for statement in _statements(text):
            self._statement(statement.strip())

    def _statement(self, text: str) -> None:
        while found := _LABEL.match(text):
            self.kernel.labels[found[1]] = len(self.kernel.code)
            text = found[2].strip()
        if text.startswith("{"):
            self._inner(text[1:-1])
        elif text and not text.startswith("."):
            self._instruction(text)

    def _inner(self, text: str) -> None:
        """A block of inline assembly: what it declares is its own."""
        self.blocks += 1
        own = set(re.findall(r"\.reg\s+\.\w+\s+(\w+)", text))
        own |= set(re.findall(r"(?:^|[\s;])(\w+):(?!:)", text))
        for name in own:
            text = re.sub(rf"(?<![\w%$.:]){name}(?![\w.]|::)", f"{name}__{self.blocks}", text)
        self.block(text)

    def _instruction(self, text: str) -> None:
        guard = None
        if found := _GUARD.match(text):
            guard, text = (found[2], bool(found[1])), found[3]
        name, _, rest = text.replace("\t", " ").replace("\n", " ").partition(" ")
        parts = tuple(re.split(r"(?<!:)\.|(?<=::\w)\.", name))
        self.kernel.code.append(Instruction(parts, _operands(rest), guard, text))


def _statements(text: str) -> list[str]:
    """Cut at semicolons and around blocks in braces that hold statements."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] == ";":
            found.append(text[start:at])
            start = at + 1
        elif text[at] == "{" and _LABELS.fullmatch(text[start:at]):
            end = _closing(text, at)
            found.append(text[start : end + 1])
            at, start = end, end + 1
        at += 1
    return [*found, text[start:]]  # a label may end a block


def _closing(text: str, at: int) -> int:
    depth = 0
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError("a brace is not closed")


def _operands(text: str) -> tuple[str, ...]:
    """Cut at commas outside of braces and brackets."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return tuple([*found, last] if last else found)
