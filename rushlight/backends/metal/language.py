"""The Metal Shading Language (3.0) as a Language."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType

_WHOLE = {8: "char", 16: "short", 32: "int", 64: "long"}
_TYPES = {
    "bool": "bool", "float32": "float",
    **{f"int{n}": name for n, name in _WHOLE.items()},
    **{f"uint{n}": f"u{name}" for n, name in _WHOLE.items()},
}  # fmt: skip
_FUNCTIONS = {op: op for op in ("fma", "floor", "ceil", "trunc", "rint")}
_FUNCTIONS |= {"abs": "fabs", "sqrt": "precise::sqrt"}
_EXCHANGES = {
    "subgroup_down": "simd_shuffle_down", "subgroup_up": "simd_shuffle_up",
    "subgroup_at": "simd_shuffle",
}  # fmt: skip
_MATRICES = {"float32": "float", "float16": "half", "bfloat16": "bfloat"}
_SPACES = {"private": "", "shared": "threadgroup "}

PROLOGUE = """\
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#ifndef IN_GROUP
#define IN_GROUP(kind, place) ((threadgroup kind *)(place))
#endif

// 0 for an index out of range, which is told to the host.
static inline long check_index(long index, long size, long site, device long *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}"""


class Metal(Language):
    types = _TYPES
    functions = {f"{op}.f32": name for op, name in _FUNCTIONS.items()}
    soft_double = True
    helper = "static inline"
    unroll = "#pragma unroll"
    prologue = PROLOGUE

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        return f"as_type<{self.value_type(goal)}>({text})"

    def exchange(self, op: str, text: str, number: int, dtype: DType) -> str:
        """Truth values and 64 bits are not exchanged: as bytes, and as pairs of words."""
        kind = self.carrier(dtype)
        if kind.kind == "bool":
            return f"bool({_EXCHANGES[op]}(uchar({text}), {number}))"
        if kind.itemsize < 8:
            return f"{_EXCHANGES[op]}({text}, {number})"
        pair = f"{_EXCHANGES[op]}(as_type<uint2>({text}), {number})"
        return f"as_type<{self.value_type(dtype)}>({pair})"

    def matrix(self, code: c.Matrix, at: str) -> list[str]:
        kind = _MATRICES[code.dtype.name]
        name = code.names[0]
        if code.kind == "zero":
            filled = f"make_filled_simdgroup_matrix<{kind}, 8, 8>({kind}(0))"
            return [f"simdgroup_{kind}8x8 {name} = {filled};"]
        if code.kind == "multiply":
            acc, a, b = code.names
            return [f"simdgroup_multiply_accumulate({acc}, {a}, {b}, {acc});"]
        assert code.memory is not None
        place = f"IN_GROUP({kind}, {code.memory.name} + {at})"
        if code.kind == "store":
            return [f"simdgroup_store({name}, {place}, {code.pitch});"]
        return [
            f"simdgroup_{kind}8x8 {name};", f"simdgroup_load({name}, {place}, {code.pitch});",
        ]  # fmt: skip

    def array(self, array: c.Array) -> str:
        return f"{_SPACES[array.space]}{self.memory_type(array.dtype)} {array.name}[{array.size}];"

    def barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"

    def kernel_head(
        self, kernel: c.Kernel, buffers: Sequence[tuple[str, DType, bool]]
    ) -> list[str]:
        listed = [
            f"    device {'' if written else 'const '}{self.memory_type(dtype)} *{name} "
            f"[[buffer({i})]],"
            for i, (name, dtype, written) in enumerate(buffers)
        ]
        count = len(buffers)
        return [
            f"[[max_total_threads_per_threadgroup({kernel.threads})]]",
            f"kernel void {kernel.name}(",
            *listed,
            f"    device const long *numbers [[buffer({count})]],",
            f"    device long *status [[buffer({count + 1})]],",
            "    uint group_position [[threadgroup_position_in_grid]],",
            "    uint thread_position [[thread_position_in_threadgroup]])",
            "{",
        ]

    def group_head(self, kernel: c.Kernel) -> list[str]:
        return ["const long group_id = group_position;", "const long thread_id = thread_position;"]
