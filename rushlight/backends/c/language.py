"""C11 as a Language. Kernels are `void k(first, stop, buffers, numbers, status)` for groups
first <= group_id < stop, one thread each."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.helpers import SHORT
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType

_FUNCTIONS = {"fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
              "rint": "rint", "abs": "fabs"}  # fmt: skip

PROLOGUE = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Turns of the loop that follows do not need one another; a short loop is written out. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The bits of a float as an integer, and back. */
#define BITS(from, from_type, to, to_type) \\
    static inline to_type bits_##from##_##to(from_type x) \\
    { to_type y; memcpy(&y, &x, sizeof y); return y; }
BITS(f32, float, i32, int32_t)
BITS(f32, float, u32, uint32_t)
BITS(i32, int32_t, f32, float)
BITS(u32, uint32_t, f32, float)
BITS(f64, double, i64, int64_t)
BITS(f64, double, u64, uint64_t)
BITS(i64, int64_t, f64, double)
BITS(u64, uint64_t, f64, double)

/* 0 for an index out of range, which is told to the caller. */
static inline int64_t check_index(int64_t index, int64_t size, int64_t site, int64_t *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}
"""


class C(Language):
    types = {
        "bool": "bool", "float32": "float", "float64": "double",
        **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
    }  # fmt: skip
    stored = {"bool": "uint8_t"}
    functions = {
        **{f"{op}.f32": f"{name}f" for op, name in _FUNCTIONS.items()},
        **{f"{op}.f64": name for op, name in _FUNCTIONS.items()},
    }
    suffix = {"float32": "f", "int64": "LL", "uint32": "u", "uint64": "ULL"}
    wraps = True  # by -fwrapv
    unroll = "UNROLL"
    independent = "INDEPENDENT"
    helper = "static inline"
    prologue = PROLOGUE

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        return f"bits_{SHORT[source.name]}_{SHORT[goal.name]}({text})"

    def array(self, array: c.Array) -> str:
        return f"{self.memory_type(array.dtype)} {array.name}[{array.size}];"

    def kernel_head(
        self, kernel: c.Kernel, buffers: Sequence[tuple[str, DType, bool]]
    ) -> list[str]:
        lines = [
            f"void {kernel.name}(int64_t first_group, int64_t stop_group, void *const *buffers,",
            "    const int64_t *numbers, int64_t *status)",
            "{",
        ]
        for position, (name, dtype, written) in enumerate(buffers):
            const = "" if written else "const "
            lines.append(f"{const}{self.memory_type(dtype)} *{name} = buffers[{position}];")
        return lines

    def group_head(self, kernel: c.Kernel) -> list[str]:
        return ["for (int64_t group_id = first_group; group_id < stop_group; group_id++) {"]
