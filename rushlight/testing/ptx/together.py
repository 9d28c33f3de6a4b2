"""What threads do together: barriers, exchanges in a warp, TMA, tensor cores.

In: a machine, an instruction, the threads that are active. Out: warps that wait, things on their
way. Always true: an instruction of a warp or of four of them ("aligned") is refused where some of
their threads are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rushlight.testing.ptx.machine import PARAMS, WARP, Machine, Multiplying, Named
from rushlight.testing.ptx.memory import Barrier, Wrong
from rushlight.testing.ptx.tensor_cores import Descriptor, Umma, as_float, times

NAN = 0x7FC00000
_Do = Callable[[Machine, Any, np.ndarray, int], None]


def special(name: str) -> Callable[[_Do], _Do]:
    def add(do: _Do) -> _Do:
        Machine.SPECIAL[name] = do
        return do

    return add


def _names(operand: str) -> tuple[str, ...]:
    return tuple(x.strip() for x in operand.strip("{}").split(","))


def _back(machine: Machine, warp: int, active: np.ndarray, pc: int) -> None:
    """A warp comes to this instruction again."""
    machine.pc[WARP * warp : WARP * (warp + 1)][active[WARP * warp : WARP * (warp + 1)]] = pc


def _whole(machine: Machine, one: Any, active: np.ndarray) -> list[int]:
    warps = machine.warps_of(active)
    for warp in warps:
        if not active[WARP * warp : WARP * (warp + 1)].all():
            raise Wrong(f"not all threads of warp {warp} are at {one.text}")
    return warps


# ------------------------------------------------------------------------------------ in a warp


@special("shfl.sync")
def _shuffle(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    to, source, by, *_ = one.operands
    values, lane = machine.value(source, "b32"), np.arange(machine.threads)
    distance = machine.value(by, "u32").astype(np.int64)
    if one.op[2] == "bfly":
        other = lane ^ distance
    else:
        other = lane // WARP * WARP + distance % WARP
    machine.put(to.partition("|")[0], values[other], active, "b32")


@special("elect.sync")
def _elect(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    to, predicate = one.operands[0].split("|")
    chosen = np.zeros(machine.threads, bool)
    for warp in machine.warps_of(active):
        chosen[WARP * warp + int(np.argmax(active[WARP * warp : WARP * (warp + 1)]))] = True
    machine.put(predicate, chosen, active, "pred")
    machine.put(to, np.zeros(machine.threads), active, "b32")


# ------------------------------------------------------------------------------------- barriers


@special("bar.sync")
def _bar(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    number = int(one.operands[0])
    count = int(one.operands[1]) if len(one.operands) > 1 else machine.threads
    named = machine.named.setdefault(number, Named())
    for warp in _whole(machine, one, active):
        turn = named.turns
        named.arrived += WARP
        machine.waiting[warp] = partial(lambda turn: named.turns > turn, turn)
    if named.arrived == count:
        named.arrived, named.turns = 0, named.turns + 1


@special("mbarrier.init")
def _init(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    place = machine.one(machine.address(one.operands[0]), active)
    count = machine.one(machine.value(one.operands[1], "u32"), active)
    machine.memory.barriers[place] = Barrier(count, count)


@special("mbarrier.arrive")
def _arrive(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    addresses = machine.address(one.operands[1])
    for place, count in zip(*np.unique(addresses[active], return_counts=True), strict=True):
        barrier = machine.memory.barrier(int(place))
        if "expect_tx" in one.op:
            barrier.expect(machine.one(machine.value(one.operands[2], "u32"), active))
        barrier.arrive(int(count))


@special("mbarrier.try_wait")
def _try_wait(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    to, place, parity, *_ = one.operands
    addresses, parities = machine.address(place), machine.value(parity, "u32")
    machine.put(to, np.ones(machine.threads, bool), active, "pred")
    for warp in machine.warps_of(active):
        own = active.copy()
        own[: WARP * warp] = own[WARP * (warp + 1) :] = False
        barrier = machine.memory.barrier(machine.one(addresses, own))
        wanted = machine.one(parities, own)
        if not barrier.is_over(wanted):
            machine.waiting[warp] = partial(barrier.is_over, wanted)
            _back(machine, warp, active, pc)


# ------------------------------------------------------------------------------------------ TMA


@special("cp.async")
def _fetch(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    """A box of a matrix comes to shared memory; its bytes land at a barrier."""
    if "tensor" not in one.op:
        raise Wrong(f"an instruction that is not imitated: {one.text}")
    to, source, at, *_ = one.operands
    name, _, corner = source.strip("[]").partition(",")
    place = machine.one(machine.address(to), active)
    barrier = machine.memory.barrier(machine.one(machine.address(at), active))
    which = machine.one(machine.value(name.strip(), "u64"), active) - PARAMS
    maps = [n for n, size in enumerate(machine.kernel.params.values()) if size == 128]
    tensor = machine.maps[maps.index(which)]
    start = [machine.one(machine.value(x, "s32"), active) for x in _names(corner.strip())]

    def land() -> None:
        tensor.fetch(machine.memory, place, start)
        barrier.land(tensor.bytes)

    machine.fetching.append(land)


@special("cvta")
def _address_of(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    machine.put(one.operands[0], machine.value(one.operands[1], "u64"), active, "u64")


# ---------------------------------------------------------------------------------------- wgmma


def _quarter(machine: Machine, one: Any, active: np.ndarray, pc: int) -> list[int]:
    """Groups of four warps that are all here; the others wait for theirs."""
    warps, groups = _whole(machine, one, active), []
    for group in range(machine.warps // 4):
        own = [w for w in warps if w // 4 == group]
        if len(own) == 4:
            groups.append(group)
            continue
        for warp in own:
            _back(machine, warp, active, pc)
            machine.waiting[warp] = partial(_all_at, machine, group, pc)
    return groups


def _all_at(machine: Machine, group: int, pc: int) -> bool:
    return bool((machine.pc[128 * group : 128 * (group + 1)] == pc).all())


def _sums(group: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, column, thread) of each of a thread's sums, as the manual draws them."""
    number, thread = np.meshgrid(np.arange(n // 2), np.arange(128), indexing="ij")
    row = thread // 32 * 16 + thread % 32 // 4 + number // 2 % 2 * 8
    column = number // 4 * 8 + thread % 4 * 2 + number % 2
    return row, column, thread + 128 * group


@special("wgmma.mma_async")
def _wgmma(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    n, kind = int(one.op[4].partition("n")[2].partition("k")[0]), one.op[-1]
    names, a, b, adds, _, _, *orders = _names(one.operands[0]), *one.operands[1:]
    if one.op[4] != f"m64n{n}k16" or len(names) != n // 2:
        raise Wrong(f"an instruction that is not imitated: {one.text}")
    for group in _quarter(machine, one, active, pc):
        lanes = active & (np.arange(machine.threads) // 128 == group)
        own = Descriptor.of(machine.one(machine.value(b, "u64"), lanes), "wgmma")
        is_k_major = [not int(x) for x in orders]
        left: Any = None
        if a.startswith("{"):
            left = _left(machine, _names(a), group, kind)
        else:
            left = Descriptor.of(machine.one(machine.value(a, "u64"), lanes), "wgmma")
        with_old = bool(machine.one(machine.value(adds, "pred"), lanes))
        queue = machine.multiplying[group]
        row, column, thread = _sums(group, n)
        if names not in queue.sums:
            old = np.zeros((64, n), np.float32)
            unset = np.full(machine.threads, np.nan, np.float32)
            values = np.stack(
                [machine.value(x, "f32") if x in machine.registers else unset for x in names]
            )
            old[row, column] = values[np.arange(n // 2)[:, None], thread]
            queue.sums[names] = old
        work = partial(_product, machine, left, own, n, kind, is_k_major, with_old)
        queue.asked.append((names, work))
        for name in names:  # nobody may look before it is waited for
            machine.put(name, np.full(machine.threads, NAN), lanes, "b32")


def _left(machine: Machine, names: tuple[str, ...], group: int, kind: str) -> np.ndarray:
    """A from registers: pairs of elements, 8 of a thread."""
    words = np.stack([machine.value(x, "b32") for x in names])[:, 128 * group : 128 * (group + 1)]
    number, thread = np.meshgrid(np.arange(8), np.arange(128), indexing="ij")
    row = thread // 32 * 16 + thread % 32 // 4 + number // 2 % 2 * 8
    column = number // 4 * 8 + thread % 4 * 2 + number % 2
    halves = (words[number // 2, thread] >> (16 * (number % 2)).astype(np.uint32)) & 0xFFFF
    left = np.zeros((64, 16), np.float32)
    left[row, column] = as_float(halves, kind)
    return left


def _product(
    machine: Machine, a: Any, b: Descriptor, n: int, kind: str, is_k_major: list[bool],
    adds: bool, old: np.ndarray,
) -> np.ndarray:  # fmt: skip
    right = b.matrix(machine.memory, n, is_k_major[-1], kind)
    left = a
    if isinstance(a, Descriptor):
        left = a.matrix(machine.memory, 64, is_k_major[0], kind)
    return times(left, right, old if adds else None)


@special("wgmma.fence")
def _wgmma_fence(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    _whole(machine, one, active)


@special("wgmma.commit_group")
def _commit_group(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    for group in _quarter(machine, one, active, pc):
        queue = machine.multiplying[group]
        queue.groups.append(len(queue.asked) - sum(queue.groups))


@special("wgmma.wait_group")
def _wait_group(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    left = int(one.operands[0])
    for group in _quarter(machine, one, active, pc):
        queue = machine.multiplying[group]
        while len(queue.groups) > left:
            for names, work in [queue.asked.pop(0) for _ in range(queue.groups.pop(0))]:
                queue.sums[names] = work(queue.sums[names])
        _return(machine, queue, group)


def _return(machine: Machine, queue: Multiplying, group: int) -> None:
    """Sums that nothing is added to any more are the threads' again."""
    busy = {names for names, _ in queue.asked}
    for names in [x for x in queue.sums if x not in busy]:
        sums = queue.sums.pop(names)
        row, column, thread = _sums(group, sums.shape[1])
        lanes = np.arange(machine.threads) // 128 == group
        for number, name in enumerate(names):
            values = np.zeros(machine.threads, np.float32)
            values[thread[number]] = sums[row[number], column[number]]
            machine.put(name, values, lanes, "f32")


# -------------------------------------------------------------------------------------- tcgen05


@special("tcgen05.alloc")
def _alloc(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    _whole(machine, one, active)
    start = machine.memory.take(machine.one(machine.value(one.operands[1], "u32"), active))
    place = machine.address(one.operands[0])[active]
    machine.memory.store("shared", place, np.full(len(place), start), 4)


@special("tcgen05.dealloc")
def _dealloc(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    _whole(machine, one, active)
    if machine.tensor_queue:
        raise Wrong("tensor memory is given back while tensor cores work")
    machine.memory.give(machine.one(machine.value(one.operands[1], "u32"), active))


@special("tcgen05.relinquish_alloc_permit")
def _relinquish(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    _whole(machine, one, active)


@special("tcgen05.mma")
def _umma(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    if active.sum() != 1:
        raise Wrong(f"{active.sum()} threads ask for one product")
    to, a, b, bits, _, adds = one.operands
    target = machine.one(machine.address(to), active)
    left: Descriptor | int
    if a.startswith("["):
        left = machine.one(machine.address(a), active)
    else:
        left = Descriptor.of(machine.one(machine.value(a, "u64"), active), "umma")
    work = Umma(
        target, left, Descriptor.of(machine.one(machine.value(b, "u64"), active), "umma"),
        machine.one(machine.value(bits, "u32"), active),
        bool(machine.one(machine.value(adds, "pred"), active)),
    )  # fmt: skip
    machine.tensor_queue.append(partial(work.work, machine.memory))


@special("tcgen05.commit")
def _commit(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    place = machine.one(machine.address(one.operands[0]), active)
    count = int(active.sum())
    machine.tensor_queue.append(partial(machine.memory.barrier(place).arrive, count))


def _cells(machine: Machine, one: Any, operand: str, warp: int) -> tuple[slice, int]:
    """(lanes, first column) of a warp's part of tensor memory."""
    lanes = np.arange(machine.threads) // WARP == warp
    place = machine.one(machine.address(operand), lanes)
    lane, column = place >> 16, place & 0xFFFF
    if lane != warp % 4 * WARP:
        raise Wrong(f"warp {warp} may reach lanes {warp % 4 * WARP}..., not {lane}")
    if one.op[4] != "32x32b" or column + int(one.op[5][1:]) > machine.memory.taken:
        raise Wrong(f"an access to tensor memory that is not imitated: {one.text}")
    return slice(lane, lane + WARP), column


@special("tcgen05.ld")
def _tensor_load(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    """What is there now; the registers may be used after a wait."""
    names = _names(one.operands[0])
    for warp in _whole(machine, one, active):
        lanes, column = _cells(machine, one, one.operands[1], warp)
        values = machine.memory.tensor[lanes, column : column + len(names)]
        own = np.arange(machine.threads) // WARP == warp
        for number, name in enumerate(names):
            whole = np.zeros(machine.threads, np.uint32)
            whole[own] = values[:, number]
            machine.put(name, whole, own, "b32")
        machine.unready.setdefault(warp, set()).update(names)


@special("tcgen05.st")
def _tensor_store(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    names = _names(one.operands[1])
    for warp in _whole(machine, one, active):
        lanes, column = _cells(machine, one, one.operands[0], warp)
        own = np.arange(machine.threads) // WARP == warp
        values = np.stack([machine.value(x, "b32")[own] for x in names], 1)

        def store(lanes: slice = lanes, values: np.ndarray = values, at: int = column) -> None:
            machine.memory.tensor[lanes, at : at + values.shape[1]] = values

        machine.late.setdefault(warp, []).append(store)


@special("tcgen05.wait::ld")
def _wait_load(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    for warp in _whole(machine, one, active):
        machine.unready.pop(warp, None)


@special("tcgen05.wait::st")
def _wait_store(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    for warp in _whole(machine, one, active):
        for do in machine.late.pop(warp, []):
            do()


@special("tcgen05.fence::before_thread_sync")
@special("tcgen05.fence::after_thread_sync")
def _tensor_fence(machine: Machine, one: Any, active: np.ndarray, pc: int) -> None:
    """Barriers order tensor memory here."""
