"""PTX in numpy: threads that part ways, barriers, what is late, operands of tensor cores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rushlight.testing.ptx import Stuck, TensorMap, Wrong, parse, run
from rushlight.testing.ptx.memory import SHARED_BASE, Barrier, Memory
from rushlight.testing.ptx.tensor_cores import Descriptor

HEAD = """
.version 8.8
.target sm_90a
.visible .entry kernel(
	.param .align 8 .b8 kernel_param_0[8],
	.param .align 8 .b8 kernel_param_1[8]
)
.reqntid 64, 1, 1
{
	.reg .b32 	%r<9>;
	ld.param.b64 	%rd1, [kernel_param_0];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	mov.b32 	%r2, __dynamic_shmem__0;
"""
NONE = np.zeros(1, np.int64)


def result_of(body: str, seed: int | None = None) -> np.ndarray:
    """What 64 threads leave in a buffer of int32."""
    (kernel,) = parse(HEAD + body + "\tret;\n}\n")
    out = np.full(64, -1, np.int32)
    run(kernel, [out], [], NONE, seed=seed)
    return out


def test_threads_that_part_meet_again() -> None:
    body = """
	and.b32 	%r3, %r1, 1;
	setp.ne.b32 	%p1, %r3, 0;
	@%p1 bra 	$odd;
	mul.lo.s32 	%r4, %r1, 10;
	bra.uni 	$both;
$odd:
	sub.s32 	%r4, 0, %r1;
$both:
	st.global.b32 	[%rd3], %r4;
"""
    thread = np.arange(64)
    assert np.array_equal(result_of(body), np.where(thread % 2, -thread, thread * 10))


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_shared_memory_is_seen_after_a_barrier_and_exchanges_stay_in_a_warp(seed) -> None:
    body = """
	shl.b32 	%r3, %r1, 2;
	add.s32 	%r4, %r2, %r3;
	st.shared.b32 	[%r4], %r1;
	bar.sync 	0;
	sub.s32 	%r5, 63, %r1;
	shl.b32 	%r5, %r5, 2;
	add.s32 	%r5, %r2, %r5;
	ld.shared.b32 	%r6, [%r5];
	shfl.sync.bfly.b32 	%r7, %r6, 1, 31, -1;
	st.global.b32 	[%rd3], %r7;
"""
    assert np.array_equal(result_of(body, seed), (63 - np.arange(64)) ^ 1)


def test_what_waits_for_nothing_is_stuck_and_what_is_not_known_is_refused() -> None:
    wait = """
	mov.b32 	%r3, 1;
	setp.eq.b32 	%p1, %r1, 0;
	@%p1 mbarrier.init.shared.b64 	[%r2], %r3;
	bar.sync 	0;
	{
	.reg .pred P1;
	LAB_WAIT:
	mbarrier.try_wait.parity.shared.b64 P1, [%r2], 0, 100;
	@P1 bra.uni DONE;
	bra.uni LAB_WAIT;
	DONE:
	}
"""
    with pytest.raises(Stuck, match="all wait.*try_wait"):
        result_of(wait)
    arrive = "\t@%p1 mbarrier.arrive.shared.b64 %rd9, [%r2], %r3;\n"
    result_of(wait.replace("\t{\n", arrive + "\t{\n", 1))
    with pytest.raises(Wrong, match="not imitated: popc.b32"):
        result_of("\tpopc.b32 %r3, %r1;\n")
    with pytest.raises(Wrong, match="of global memory of 256"):
        result_of("\tst.global.b32 [%rd3+4], %r1;\n")


def test_a_barrier_counts_arrivals_and_bytes_and_turns() -> None:
    barrier = Barrier(2, 2)
    assert barrier.is_over(1) and not barrier.is_over(0)
    barrier.expect(64)
    barrier.arrive(2)
    assert not barrier.is_over(0)
    barrier.land(64)
    assert barrier.is_over(0) and not barrier.is_over(1)
    with pytest.raises(Wrong, match="more arrivals"):
        barrier.arrive(3)


# Bytes of a swizzled row -> (field of a wgmma descriptor, of a tcgen05 descriptor).
FIELDS = {128: (1, 2), 64: (2, 4), 32: (3, 6)}


def descriptor(chip: str, start: int, leading: int, stride: int, width: int) -> Descriptor:
    field = FIELDS[width][chip == "umma"] << (62 if chip == "wgmma" else 61)
    bits = field | start >> 4 | leading >> 4 << 16 | stride >> 4 << 32
    return Descriptor.of(bits | (1 << 46 if chip == "umma" else 0), chip)


@pytest.mark.parametrize("chip", ["wgmma", "umma"])
@pytest.mark.parametrize("width", FIELDS)
@pytest.mark.parametrize("is_k_major", [True, False])
def test_what_tma_fetches_is_what_tensor_cores_read(chip, width, is_k_major) -> None:
    """64 rows, a row of the pattern of k; the second 16 of k are a descriptor further on."""
    elements, rows = width // 2, 64
    kind = ml_dtypes.bfloat16
    whole = np.random.default_rng(0).standard_normal((rows, 64)).astype(kind)
    memory = Memory([np.ascontiguousarray(whole if is_k_major else whole.T).view(np.uint8).ravel()])
    start = SHARED_BASE
    if is_k_major:
        TensorMap(0, 0, (64, rows), (1, 64), (elements, rows)).fetch(memory, start, [0, 0])
        own = descriptor(chip, start, 16, 8 * width, width)
        pieces = [own] + [
            descriptor(chip, start + 32 * n, 16, 8 * width, width) for n in range(1, elements // 16)
        ]
    else:
        one = TensorMap(0, 0, (rows, 64), (1, rows), (elements, 32))
        for number in range(rows // elements):
            one.fetch(memory, start + number * one.bytes, [number * elements, 0])
        pieces = [
            descriptor(chip, start + 16 * n * width, one.bytes, 8 * width, width) for n in range(2)
        ]
    for number, piece in enumerate(pieces):
        found = piece.matrix(memory, rows, is_k_major, "bf16")
        wanted = whole[:, 16 * number : 16 * (number + 1)].astype(np.float32)
        assert np.array_equal(found, wanted), number


def test_a_pattern_starts_where_it_repeats_and_outside_of_a_matrix_is_zero() -> None:
    with pytest.raises(Wrong, match="pattern of 1024 bytes starts at 1152"):
        descriptor("wgmma", 1152, 16, 1024, 128).places(64, True)
    memory = Memory([np.ones(64, np.uint16).view(np.uint8)])
    TensorMap(0, 0, (8, 8), (1, 8), (8, 16)).fetch(memory, SHARED_BASE, [4, 6])
    found = memory.shared[SHARED_BASE : SHARED_BASE + 256].view("<u2").reshape(16, 8)
    assert found.sum() == 4 * 2 and np.array_equal(found[:2, :4], np.ones((2, 4)))
