"""Attention in CuTe DSL: what is compiled, what is refused. **No GPU was at hand.**"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from typing import Any

import pytest
from cfamily_cases import programs_of

import rushlight as torch
from rushlight.backends.cute.flash_claims import Attention
from rushlight.backends.cute.maker import build, claimed
from rushlight.compiler.tile.ir import Program
from rushlight.engine.realize import flush
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.testing.conformance import template_cases

needs_cute = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None, reason="pip install nvidia-cutlass-dsl"
)


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def attention_program(
    score: Any = None, mask: Any = None, dtype: Any = torch.bfloat16, width: int = 64,
    length: int = 256, lse: bool = False,
) -> Program:  # fmt: skip
    q, k, v = (torch.zeros(2, 3, length, width, dtype=dtype) for _ in range(3))
    flush()  # operands are memory
    found = flex_attention(q, k, v, score, mask, return_lse=lse)
    roots = [one._value() for one in (found if lse else (found,))]
    return next(p for p in programs_of(roots) if p.name.startswith("attention"))


@needs_cute
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_both_products_are_on_tensor_cores_and_operands_come_by_tma(dtype: str) -> None:
    made = build(attention_program(dtype=getattr(torch, dtype)), "sm_90")
    kind = {"float16": "f16.f16", "bfloat16": "bf16.bf16"}[dtype]
    found = re.findall(r"wgmma\.mma_async\S+\s+(?:\n\s*)?\{[^}]*\},\s*(\S)", made.ptx)
    assert f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{kind}" in made.ptx
    # 4 pieces of the features by descriptors, 4 of the keys with weights in registers.
    assert (found.count("{"), len(found) - found.count("{")) == (4, 4)
    assert made.ptx.count("cp.async.bulk.tensor.3d") == 3
    assert made.ptx.count("shfl.sync.bfly") == 8  # tops and totals of two queries, over a quad
    assert made.cubin[:4] == b"\x7fELF"


@needs_cute
def test_scores_and_masks_are_expressions_and_tables_say_which_keys_are_read() -> None:
    bias = torch.zeros(3, 256)

    def biased(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return torch.tanh(score / 20) * 20 + bias[h, j]

    plain = build(attention_program(), "sm_90").ptx
    masked = attention_program(biased, create_block_mask(causal, None, None, 256, 256), lse=True)
    ptx = build(masked, "sm_90").ptx
    assert plain.count("ld.global") == 1  # the scale
    assert ptx.count("ld.global") >= 32  # a bias for each score of a thread, and the tables
    assert ptx.count("fma.rn.f32") > 2 * plain.count("fma.rn.f32")
    assert ptx.count("setp.") > plain.count("setp.")
    assert "st.global.b32" in ptx  # lse


def backward_program(width: int = 64, heads: int = 3, groups: int = 3) -> Program:
    """The gradients of the three operands, causal with a bend of the scores."""
    q, to = (torch.zeros(2, heads, 256, width, dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.zeros(2, groups, 256, width, dtype=torch.bfloat16) for _ in range(2))
    flush()
    for x in (q, k, v):
        x.requires_grad_()
    mask = create_block_mask(causal, None, None, 256, 256)
    out = flex_attention(
        q, k, v, lambda s, b, h, i, j: torch.tanh(s), mask, enable_gqa=heads > groups
    )
    roots = [one._value() for one in torch.autograd.grad(out, (q, k, v), to)]
    return next(p for p in programs_of(roots) if "pair_sum" in p.name)


@needs_cute
def test_a_backward_pass_is_a_kernel_for_queries_and_one_for_keys(tmp_path) -> None:
    """No sum is added to by two groups: no atomics, no reductions in memory."""
    made = build(backward_program(), "sm_90")
    assert made.ptx.count(".visible .entry") == 2
    assert not re.search(r"\b(atom|red)\.", made.ptx)
    # 4 pieces of the features for each of two products, 4 of the others for each sum (1 + 2).
    assert made.ptx.count("wgmma.mma_async") == (8 + 4) + (8 + 8)
    assert made.ptx.count("cp.async.bulk.tensor.3d") == 5 + 6
    objects, _ = made.export_to_c(tmp_path)
    assert objects.read_bytes()[:4] == b"\x7fELF"


@needs_cute
def test_on_sm_100_products_weights_and_sums_are_in_tensor_memory(tmp_path) -> None:
    forward, backward = build(attention_program(lse=True), "sm_100"), build(
        backward_program(), "sm_100"
    )  # fmt: skip
    for made, kernels, products in ((forward, 1, 4 + 4), (backward, 2, (8 + 4) + (8 + 8))):
        assert made.ptx.count("tcgen05.mma.cta_group::1.kind::f16") == products
        for one in ("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit"):
            assert made.ptx.count(one) == kernels
        assert not re.search(r"\b(atom|red)\.", made.ptx) and made.cubin[:4] == b"\x7fELF"
    weights = re.findall(r"tcgen05\.mma\S+ \[%r\d+\], \[%r\d+\]", forward.ptx)
    assert len(weights) == 4  # the left factor of the sums lies in tensor memory
    objects, _ = backward.export_to_c(tmp_path)
    assert objects.read_bytes()[:4] == b"\x7fELF"


def test_tiles_of_both_sides_fit_and_what_does_not_is_refused() -> None:
    found = claimed(backward_program(), "sm_100")
    assert isinstance(found, Attention)
    first, second = found.sides
    assert (first.name, len(first.weights), first.columns) == ("l", 1, 2 * 64 + 32 + 64)
    assert (second.name, len(second.weights), second.columns) == ("s", 2, 2 * 64 + 2 * 32 + 2 * 64)
    assert second.shared_bytes == 2 * (2 * 128 * 64 + 2 * 4 * 64 * 64)
    wide = claimed(backward_program(256), "sm_100")
    assert isinstance(wide, list)
    assert any("bytes of shared memory" in x for x in wide)
    assert any("columns of tensor memory" in x for x in wide)
    assert isinstance(claimed(attention_program(width=256), "sm_100"), Attention)


def test_heads_that_share_keys_are_one_matrix() -> None:
    found = claimed(backward_program(heads=4, groups=2), "sm_90")
    assert isinstance(found, Attention)
    assert [x.share for x in found.sides[0].inners] == [2, 2]
    assert [x.share for x in found.sides[0].owners] == [1, 1]


@pytest.mark.parametrize(("change", "why"), [
    ({"dtype": torch.float32}, "operand_dtype: float32"),
    ({"width": 24}, "features: 24 is no multiple of 16"),
    ({"width": 272}, "features: 272 is no multiple of 16 up to 256"),
])  # fmt: skip
def test_what_it_cannot_do_is_refused_before(change: dict, why: str) -> None:
    found = claimed(attention_program(**change), "sm_90")
    assert isinstance(found, list) and why in found[0]


def test_sums_into_bins_are_refused_and_a_fine_mask_takes_smaller_groups() -> None:
    (case,) = [case for case in template_cases() if case.name == "pairs"]
    found = [claimed(p, "sm_90") for p in programs_of([x for x in case.build() if not x.leaf])]
    assert any(isinstance(x, list) and "sums into bins" in x[0] for x in found), found
    one = claimed(attention_program(mask=create_block_mask(causal, None, None, 256, 256)), "sm_90")
    assert isinstance(one, Attention) and one.grid.runs_l is not None
    (side,) = one.sides
    assert side.rows == 128
    fine = replace(one.grid, runs_l=replace(one.grid.runs_l, rows=64))
    assert replace(side, grid=fine).rows == 64


@needs_cute
def test_weights_lie_in_registers_as_the_next_product_takes_them() -> None:
    """Sums of the first product, in their order, are the operand of the second, thread by thread;
    and number i belongs to a thread's first query where i // 2 is even."""
    import cutlass
    from cutlass import cute
    from cutlass.cute.nvgpu import warpgroup
    from cutlass.cute.nvgpu.common import OperandMajorMode
    from cutlass.utils import hopper_helpers as hopper

    from rushlight.backends.cute.flash_claims import KEYS
    from rushlight.backends.cute.pairs_impl import QUADS

    seen: list[tuple[int, int, int, int]] = []

    @cute.jit
    def layouts() -> None:
        k, kind = OperandMajorMode.K, cutlass.BFloat16
        first = hopper.make_trivial_tiled_mma(
            kind, kind, k, k, cutlass.Float32, (1, 1, 1), (64, KEYS)
        )
        second = hopper.make_trivial_tiled_mma(
            kind, kind, k, k, cutlass.Float32, (1, 1, 1), (64, 64),
            warpgroup.OperandSource.RMEM,
        )  # fmt: skip
        for thread in cutlass.range_constexpr(0, 128, 7):
            for number in cutlass.range_constexpr(KEYS // 2):
                piece, inner = divmod(number, 8)
                place = first.tv_layout_C((thread, number))
                operand = second.tv_layout_A((thread, inner))
                seen.append((number, place, operand + 64 * 16 * piece, thread))

    cute.compile(layouts, options="--gpu-arch sm_90a")
    assert len(seen) == 19 * 32
    for number, place, operand, thread in seen:
        assert place == operand
        row = 16 * (thread // 32) + thread % 32 // 4 + 8 * QUADS.owner_of(number)
        assert place % 64 == row
