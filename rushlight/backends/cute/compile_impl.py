"""CuTe kernels compiled on a machine that need not have a GPU.

In: dtypes, sizes, an epilogue. Out: PTX and cubin for sm_90a.
Always true: what the kernel cannot do is refused before anything is compiled.
"""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from rushlight.base.errors import BackendError

CHIP = "sm_90a"
OPERANDS = {"float16": "Float16", "bfloat16": "BFloat16"}
RESULTS = {**OPERANDS, "float32": "Float32"}
MULTIPLE = 8  # elements of k, for the 16 bytes that TMA wants


@dataclass(frozen=True)
class Gemm:
    """`seconds`: what the compilation took."""

    ptx: str
    cubin: bytes
    seconds: float


def compile_gemm(
    dtype: str, out_dtype: str = "float32", sizes: tuple[int, int, int] | None = None,
    epilogue: str = "none",
) -> Gemm:  # fmt: skip
    """out (m, n) = epilogue(a (m, k) @ b (n, k).T), summed in float32.

    `sizes`: (m, n, k), or None for any (whoever launches keeps m and n multiples of 128, k of 8).
    Raises BackendError for what the kernel cannot do, ModuleNotFoundError without the extra `cute`.
    """
    kernels: Any = importlib.import_module("rushlight.backends.cute.gemm_impl")
    import cutlass
    from cutlass import cute

    if dtype not in OPERANDS or out_dtype not in RESULTS:
        raise BackendError(
            f"cute: got {dtype} @ {dtype} to {out_dtype}; operands may be {', '.join(OPERANDS)}, "
            f"results {', '.join(RESULTS)}"
        )
    if epilogue not in kernels.EPILOGUES:
        raise BackendError(f"cute: epilogue {epilogue!r}; there are {', '.join(kernels.EPILOGUES)}")
    any_size = cute.sym_int32
    shape = sizes or (any_size(divisibility=kernels.BM), any_size(divisibility=kernels.BN),
                      any_size(divisibility=MULTIPLE))  # fmt: skip
    if sizes and (sizes[0] % kernels.BM or sizes[1] % kernels.BN or sizes[2] % MULTIPLE):
        raise BackendError(
            f"cute: sizes {sizes}; m and n must be multiples of {kernels.BM} and {kernels.BN}, "
            f"k of {MULTIPLE}"
        )
    m, n, k = shape

    def matrix(rows: Any, columns: Any, kind: str) -> Any:
        return cute.runtime.make_fake_compact_tensor(
            getattr(cutlass, RESULTS[kind]), (rows, columns), stride_order=(1, 0), assumed_align=16
        )

    began = time.perf_counter()
    with TemporaryDirectory() as folder:  # CuTe writes what it keeps to files, too
        made = cute.compile(
            kernels.gemm, matrix(m, k, dtype), matrix(n, k, dtype), matrix(m, n, out_dtype),
            kernels.EPILOGUES[epilogue], cute.runtime.make_fake_stream(),
            options=f"--gpu-arch {CHIP} --keep-ptx --keep-cubin --dump-dir={folder}",
        )  # fmt: skip
        return Gemm(made.__ptx__, made.__cubin__, time.perf_counter() - began)
