"""One group of threads that runs a kernel's PTX, in numpy.

In: a kernel, global buffers, what TMA knows of matrices, which group. Out: the buffers, changed.
Always true: what is asynchronous (TMA, wgmma, tcgen05) happens as late as it may, or, with a
`seed`, at any time before; until then its results are NaN. So a kernel that does not wait computes
NaN, one that gives memory back too early computes with what came later, and one whose barriers do
not meet is Stuck. Threads that part ways run one after another, those that are behind first.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.testing.ptx.memory import FAR, SHARED_BASE, Memory, Stuck, Wrong
from rushlight.testing.ptx.parse import Instruction, Kernel
from rushlight.testing.ptx.scalars import KINDS, SCALARS, literal
from rushlight.testing.ptx.tensor_cores import TensorMap

WARP = 32
_REGISTER = re.compile(r"%\w+")
_PARTING = ("bra", "ret", "exit")
_FAR = 1 << 40
MOST_STEPS = 5_000_000
PARAMS = 1 << 60  # where parameters lie
__all__ = ["Machine", "Stuck", "TensorMap", "Wrong", "run"]


def run(
    kernel: Kernel, buffers: Sequence[np.ndarray], maps: Sequence[TensorMap], words: np.ndarray,
    group: tuple[int, int, int] = (0, 0, 0), seed: int | None = None,
) -> Machine:  # fmt: skip
    """Run one group. `words`: what a launch writes; it follows the buffers as a parameter.

    >>> (kernel,) = parse(made.ptx)                                                # doctest: +SKIP
    >>> run(kernel, [a, b, out], [map_of_a, map_of_b], np.zeros(1, np.int64))   # doctest: +SKIP
    """
    flat = [np.ascontiguousarray(x).reshape(-1) for x in (*buffers, words)]
    memory = Memory([x.view(np.uint8) for x in flat])
    machine = Machine(kernel, memory, list(maps), group, seed)
    machine.run()
    for given, own in zip(buffers, flat, strict=False):
        if own.base is not given and own is not given:
            given[...] = own.reshape(given.shape)
    if memory.taken:
        raise Wrong(f"{memory.taken} columns of tensor memory are not given back")
    return machine


@dataclass
class Named:
    """A named barrier of the group."""

    arrived: int = 0
    turns: int = 0


@dataclass
class Multiplying:
    """wgmma of one warp group: what was asked for and is not done yet. `sums`: registers -> their
    values so far; `groups`: how many of `asked` each commit holds."""

    asked: list[tuple[tuple[str, ...], Callable[[np.ndarray | None], np.ndarray]]] = field(
        default_factory=list
    )
    sums: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)


class Machine:
    """`pc`: the next instruction of each thread. `waiting`: warp -> when it may go on."""

    def __init__(
        self, kernel: Kernel, memory: Memory, maps: list[TensorMap], group: tuple[int, ...],
        seed: int | None,
    ) -> None:  # fmt: skip
        self.kernel, self.memory, self.maps, self.group = kernel, memory, maps, group
        self.random = None if seed is None else random.Random(seed)
        self.threads = kernel.threads
        self.warps = self.threads // WARP
        # Four warps that go on when nothing else can.
        self.slow = self.random.randrange(-(-self.warps // 4)) if self.random else None
        self.pc = np.zeros(self.threads, np.int64)
        self.alive = np.ones(self.threads, bool)
        self.registers: dict[str, np.ndarray] = {}
        self.waiting: dict[int, Callable[[], bool]] = {}
        self.fetching: list[Callable[[], None]] = []  # TMA: in any order
        self.tensor_queue: list[Callable[[], None]] = []  # tcgen05: in order
        self.named: dict[int, Named] = {}
        self.multiplying = [Multiplying() for _ in range(max(1, self.warps // 4))]
        self.late: dict[int, list[Callable[[], None]]] = {}  # warp -> what its next wait does
        # warp -> registers that tcgen05.ld may not have filled yet
        self.unready: dict[int, set[str]] = {}
        self.counts: dict[str, int] = {}
        self.steps = 0
        self.meeting = set(kernel.labels.values())

    # who runs -----------------------------------------------------------------------------------

    def run(self) -> None:
        while self.alive.any():
            if self.random and self.random.random() < 0.3:
                self._something()
            ready = self._ready()
            fast = [w for w in ready if w // 4 != self.slow]
            if not fast and self._something():
                continue
            if not ready:
                raise Stuck(self._where())
            warp = self.random.choice(fast or ready) if self.random else min(ready, key=self._pc_of)
            while warp not in self.waiting and self._lanes(warp).any():
                self._straight(self._pc_of(warp), warp)

    def _ready(self) -> list[int]:
        """Warps that may go on."""
        for warp in [w for w, is_over in self.waiting.items() if is_over()]:
            del self.waiting[warp]
        return [w for w in range(self.warps) if w not in self.waiting and self._lanes(w).any()]

    def _lanes(self, warp: int) -> np.ndarray:
        return self.alive[WARP * warp : WARP * (warp + 1)]

    def _pc_of(self, warp: int) -> int:
        return int(self.pc[WARP * warp : WARP * (warp + 1)][self._lanes(warp)].min())

    def _something(self) -> bool:
        """One of the things on their way happens: tcgen05's in order, TMA's in any."""
        queues = [queue for queue in (self.fetching, self.tensor_queue) if queue]
        if not queues:
            return False
        queue = self.random.choice(queues) if self.random else queues[0]
        in_order = queue is self.tensor_queue or self.random is None
        queue.pop(0 if in_order else self.random.randrange(len(queue)))()  # type: ignore[union-attr]
        return True

    def _where(self) -> str:
        own = {w: self.kernel.code[self._pc_of(w)].text for w in self.waiting}
        return f"all wait: {own}"

    # instructions -------------------------------------------------------------------------------

    def _straight(self, pc: int, warp: int) -> None:
        """Instructions from here on, for all threads that are here and do not wait, until they may
        part or meet others. In any order, four warps go ahead of the others."""
        there = self._there(pc)
        if self.random:
            there &= np.arange(self.threads) // (4 * WARP) == warp // 4
        while True:
            one = self.kernel.code[pc]
            self._one(one, there, pc)
            pc += 1
            if one.op[0] in _PARTING or one.op[0] in self.SPECIAL or one.op[:1] == ("tcgen05",):
                return
            if ".".join(one.op[:2]) in self.SPECIAL or pc in self.meeting:
                return

    def _there(self, pc: int) -> np.ndarray:
        own = np.where(self.alive, self.pc, _FAR)
        least = own.reshape(self.warps, WARP).min(1)
        least[list(self.waiting)] = _FAR
        return np.repeat(least == pc, WARP) & (own == pc)

    def _one(self, one: Instruction, there: np.ndarray, pc: int) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stuck(f"{MOST_STEPS} instructions")
        active = there
        if one.guard is not None:
            name, negated = one.guard
            active = there & (self.value(name, "pred") != negated)
        self.pc[there] = pc + 1
        if active.any():
            self._do(one, active, pc)

    def _do(self, one: Instruction, active: np.ndarray, pc: int) -> None:
        key = ".".join(one.op[:2])
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.unready:
            self._check_ready(one, active)
        if one.op[0] == "bra":
            self.pc[active] = self.kernel.labels[one.operands[0]]
        elif one.op[0] in ("ret", "exit"):
            self.alive[active] = False
        elif key in self.SPECIAL or one.op[0] in self.SPECIAL:
            self.SPECIAL[key if key in self.SPECIAL else one.op[0]](self, one, active, pc)
        elif one.op[0] in SCALARS:
            try:
                SCALARS[one.op[0]](self, one, active)
            except KeyError as error:
                raise Wrong(f"an instruction that is not imitated: {one.text}: {error}") from error
        else:
            raise Wrong(f"an instruction that is not imitated: {one.text}")

    def _check_ready(self, one: Instruction, active: np.ndarray) -> None:
        """What is being loaded may be renamed (the assembler does not copy), no more."""
        names = [set(_REGISTER.findall(x)) for x in one.operands]
        for warp in self.warps_of(active):
            early = self.unready.get(warp, set()) & set().union(*names[1:])
            if not early or one.op[0] == "tcgen05":
                continue
            if one.op[0] != "mov":
                raise Wrong(f"{sorted(early)} before tcgen05.wait::ld: {one.text}")
            self.unready[warp] |= names[0]

    SPECIAL: dict[str, Callable[[Machine, Instruction, np.ndarray, int], None]] = {}

    # values -------------------------------------------------------------------------------------

    def value(self, operand: str, kind: str) -> np.ndarray:
        """An operand, in all threads."""
        if operand in self.registers:
            return self.registers[operand].view(KINDS[kind])
        if operand.startswith("%"):
            return np.broadcast_to(self._special(operand), self.threads).astype(KINDS[kind])
        return np.full(self.threads, self._number(operand, kind), KINDS[kind])

    def _special(self, name: str) -> Any:
        thread = np.arange(self.threads)
        known = {
            "%tid.x": thread, "%tid.y": 0 * thread, "%tid.z": 0 * thread,
            "%ntid.x": self.threads, "%laneid": thread % WARP, "%cluster_ctarank": 0,
            "%ctaid.x": self.group[0], "%ctaid.y": self.group[1], "%ctaid.z": self.group[2],
        }  # fmt: skip
        if name not in known:
            raise Wrong(f"{name} has no value")
        return known[name]

    def _number(self, text: str, kind: str) -> Any:
        if text == "__dynamic_shmem__0":
            return SHARED_BASE
        if text in self.kernel.params:
            return PARAMS + list(self.kernel.params).index(text)
        return literal(text, kind)

    def put(self, name: str, values: np.ndarray, active: np.ndarray, kind: str) -> None:
        """A register's new value, in the threads that are active."""
        if name == "_":
            return
        values = np.asarray(values).astype(KINDS[kind], copy=False)
        if name not in self.registers:
            self.registers[name] = np.zeros(self.threads, KINDS[kind])
        own = self.registers[name].view(KINDS[kind])
        own[active] = values[active]

    def address(self, operand: str) -> np.ndarray:
        """[register+number], in all threads."""
        name, _, more = operand.strip("[]").replace("+-", "+ -").partition("+")
        kind = "u64" if name in self.kernel.params else None
        base = self.registers.get(name)
        values = self.value(name, kind or "u32") if base is None else base
        return values.astype(np.int64) + (int(more) if more else 0)

    def one(self, values: np.ndarray, active: np.ndarray) -> int:
        """The value that all active threads have."""
        found = np.unique(values[active])
        if len(found) != 1:
            raise Wrong(f"{len(found)} values where one is allowed")
        return int(found[0])

    def parameter(self, index: int) -> int:
        """The bytes of a parameter as a number: buffers in their order, everything else 0."""
        pointers = [n for n, size in enumerate(self.kernel.params.values()) if size == 8]
        return FAR * (pointers.index(index) + 1) if index in pointers else 0

    def warps_of(self, active: np.ndarray) -> list[int]:
        return [w for w in range(self.warps) if active[WARP * w : WARP * (w + 1)].any()]
