"""Products in CuTe DSL: what is compiled, what is refused. **No GPU was at hand.**"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from cfamily_cases import programs_of

from rushlight import ops
from rushlight.backends import find_backend, products
from rushlight.backends.cute.chips import CHIPS, product_bytes, room, tensor_columns
from rushlight.backends.cute.maker import build
from rushlight.base.config import config
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Missing
from rushlight.compiler.tile.ir import Program
from rushlight.ir.node import Node
from rushlight.testing.conformance.cases import leaf

HAS_CUTE = importlib.util.find_spec("cutlass") is not None
needs_cute = pytest.mark.skipif(not HAS_CUTE, reason="pip install nvidia-cutlass-dsl")
BF16 = ml_dtypes.bfloat16
SUMS_OF_A_THREAD = 128 * 128 // 256


def zeros(*shape: int, kind: type = BF16) -> Node:
    return leaf(np.zeros(shape, kind))


def one(root: Node) -> Program:
    (program,) = programs_of([root])
    return program


def compiled(program: Program, chip: str = "sm_90"):
    return build(program, chip)


def test_it_says_what_it_is_for() -> None:
    found = find_backend("cute").find()
    assert isinstance(found, Missing)
    assert ("max_autotune_gemm_backends" in found.reason) == HAS_CUTE


@needs_cute
@pytest.mark.parametrize(("kind", "wgmma"), [(np.float16, "f16.f16"), (BF16, "bf16.bf16")])
def test_a_product_is_tma_and_tensor_cores(kind: type, wgmma: str) -> None:
    made = compiled(one(ops.dot(zeros(256, 512, kind=kind), zeros(512, 128, kind=kind))))
    assert f"wgmma.mma_async.sync.aligned.m64n128k16.f32.{wgmma}" in made.ptx
    assert "cp.async.bulk.tensor.2d" in made.ptx and ".target sm_90a" in made.ptx
    assert made.cubin[:4] == b"\x7fELF"


@needs_cute
def test_the_stores_of_the_tile_program_are_the_epilogue(tmp_path) -> None:
    """A bias, gelu, a residual and the cast; as an object file for C, too."""
    x, w, bias, more = zeros(256, 64), zeros(64, 128), zeros(128), zeros(256, 128)
    plain = compiled(one(ops.dot(x, w)))
    made = compiled(one(ops.add(ops.gelu(ops.add(ops.dot(x, w), bias)), more)))
    loads = len(re.findall(r"ld\.global\S*\.b16", made.ptx))
    assert loads > SUMS_OF_A_THREAD and "ld.global" not in plain.ptx
    assert made.ptx.count("fma.rn.f32") > 10 * SUMS_OF_A_THREAD > plain.ptx.count("fma.rn.f32")
    assert made.ptx.count("st.global") == plain.ptx.count("st.global") == SUMS_OF_A_THREAD
    objects, header = made.export_to_c(tmp_path)
    assert objects.read_bytes()[:4] == b"\x7fELF" and made.name in header.read_text()


@needs_cute
def test_sizes_that_do_not_fill_tiles_are_masked_and_batches_are_a_dimension_more() -> None:
    ragged = compiled(one(ops.dot(zeros(100, 64), zeros(64, 72))))
    assert re.search(r"@%p\d+ bra", ragged.ptx) and ragged.ptx.count("wgmma.mma_async") == 4
    batched = compiled(one(ops.dot(zeros(3, 128, 64), zeros(3, 64, 128))))
    assert "cp.async.bulk.tensor.3d" in batched.ptx


@needs_cute
def test_what_it_cannot_do_is_refused_before() -> None:
    with pytest.raises(BackendError, match="dot.*sm_90: operand_dtype: float32"):
        compiled(one(ops.dot(zeros(8, 8, kind=np.float32), zeros(8, 8, kind=np.float32))))
    with pytest.raises(BackendError, match="no CuTe kernel for sm_80: there are.*sm_90, sm_100"):
        compiled(one(ops.dot(zeros(128, 64), zeros(64, 128))), "sm_80")


@needs_cute
@pytest.mark.parametrize("kind", [np.float16, BF16])
def test_on_sm_100_one_thread_multiplies_and_sums_are_in_tensor_memory(kind, tmp_path) -> None:
    program = one(ops.gelu(ops.dot(zeros(256, 512, kind=kind), zeros(512, 256, kind=kind))))
    made = compiled(program, "sm_100")
    assert ".target sm_100a" in made.ptx and "cp.async.bulk.tensor.2d" in made.ptx
    assert made.ptx.count("tcgen05.mma.cta_group::1.kind::f16") == 64 // 16
    assert "wgmma" not in made.ptx and "mma.sync" not in made.ptx
    for pair in ("tcgen05.alloc", "tcgen05.dealloc"):
        assert made.ptx.count(pair) == 1
    # Sums are stored row by row, in a loop: 32 columns of a thread at a time.
    assert made.ptx.count("tcgen05.ld.sync.aligned.32x32b.x32.b32") == 1
    assert made.ptx.count("st.global") == 32 and made.cubin[:4] == b"\x7fELF"
    objects, header = made.export_to_c(tmp_path)
    assert objects.read_bytes()[:4] == b"\x7fELF" and made.name in header.read_text()


def test_tiles_fit_into_what_a_chip_has() -> None:
    for name, chip in CHIPS.items():
        assert room(chip, product_bytes(chip), chip.bn) == [], name
        deep = replace(chip, stages=2 * chip.stages)
        assert "bytes of shared memory" in room(deep, product_bytes(deep))[0]
    blackwell = CHIPS["sm_100"]
    assert [tensor_columns(n) for n in (1, 32, 33, 256, 400)] == [32, 32, 64, 256, 512]
    assert room(blackwell, 0, 512) == [] and "513 columns" in room(blackwell, 0, 513)[0]
    assert product_bytes(blackwell) == 4 * 2 * 64 * (128 + 256)


@needs_cute
def test_explain_shows_the_kernel_of_the_maker_that_is_chosen() -> None:
    from rushlight.backends.triton.driver_impl import caps_of

    program = one(ops.dot(zeros(128, 64), zeros(64, 128)))
    with config.override(max_autotune_gemm_backends="CUTLASS"):
        assert products.choose(program, "sm_90", "triton")[1].choice == "cute"
        text = find_backend("triton").lower_text(program, caps_of("sm_90|a GPU"))
    assert text.startswith("// CuTe DSL, sm_90") and "wgmma.mma_async" in text
