"""Products in CuTe DSL: what is compiled for sm_90, what is refused. **No GPU was at hand.**"""

from __future__ import annotations

import importlib.util

import pytest

from rushlight.backends import find_backend
from rushlight.backends.cute.compile_impl import compile_gemm
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Missing

HAS_CUTE = importlib.util.find_spec("cutlass") is not None
needs_cute = pytest.mark.skipif(not HAS_CUTE, reason="pip install nvidia-cutlass-dsl")


def test_it_says_what_it_is_for() -> None:
    found = find_backend("cute").find()
    assert isinstance(found, Missing)
    assert ("compile_gemm" in found.reason) == HAS_CUTE


@needs_cute
@pytest.mark.parametrize(("dtype", "wgmma"), [("float16", "f16.f16"), ("bfloat16", "bf16.bf16")])
def test_a_product_is_tma_and_tensor_cores(dtype: str, wgmma: str) -> None:
    made = compile_gemm(dtype, "float32", (256, 128, 512))
    assert f"wgmma.mma_async.sync.aligned.m64n128k16.f32.{wgmma}" in made.ptx
    assert "cp.async.bulk.tensor.2d" in made.ptx and ".target sm_90a" in made.ptx
    assert made.cubin[:4] == b"\x7fELF"


@needs_cute
def test_sizes_may_be_any_and_an_epilogue_is_in_the_kernel() -> None:
    plain = compile_gemm("bfloat16", "bfloat16")
    square = compile_gemm("bfloat16", "bfloat16", epilogue="square")
    assert square.ptx.count(".entry") == plain.ptx.count(".entry") == 1
    own = 128 * 128 // 256  # results of a thread
    assert square.ptx.count("mul.f32") >= own > plain.ptx.count("mul.f32")
    assert compile_gemm("bfloat16", epilogue="relu").ptx != compile_gemm("bfloat16").ptx


@needs_cute
def test_what_it_cannot_do_is_refused_before() -> None:
    with pytest.raises(BackendError, match="operands may be float16, bfloat16"):
        compile_gemm("float32")
    with pytest.raises(BackendError, match="multiples of 128"):
        compile_gemm("float16", sizes=(100, 128, 64))
    with pytest.raises(BackendError, match="there are none, relu"):
        compile_gemm("float16", epilogue="gelu")
