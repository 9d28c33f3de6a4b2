"""OpenCL C 1.2 as a Language."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType

_WHOLE = {8: "char", 16: "short", 32: "int", 64: "long"}
_TYPES = {
    "bool": "bool", "float32": "float", "float64": "double",
    **{f"int{n}": name for n, name in _WHOLE.items()},
    **{f"uint{n}": f"u{name}" for n, name in _WHOLE.items()},
}  # fmt: skip
_FUNCTIONS = {op: op for op in ("fma", "sqrt", "floor", "ceil", "trunc", "rint")} | {"abs": "fabs"}
_EXCHANGES = {
    "subgroup_down": "sub_group_shuffle_down", "subgroup_up": "sub_group_shuffle_up",
    "subgroup_at": "sub_group_shuffle",
}  # fmt: skip
_SPACES = {"private": "", "shared": "__local "}

PROLOGUE = """\
#pragma OPENCL FP_CONTRACT OFF

/* 0 for an index out of range, which is told to the host. */
inline long check_index(long index, long size, long site, __global long *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}"""
# How groups wait for one another, with the atomics of OpenCL C 3.0.
SYNC = """

inline long sync_ticket(__global uint *place)
{
    return atomic_fetch_add_explicit((volatile __global atomic_uint *)place, 1u,
        memory_order_relaxed, memory_scope_device);
}
inline void sync_wait(__global uint *place)
{
    while (!atomic_load_explicit((volatile __global atomic_uint *)place,
        memory_order_acquire, memory_scope_device)) {}
}
inline void sync_signal(__global uint *place)
{
    atomic_store_explicit((volatile __global atomic_uint *)place, 1u,
        memory_order_release, memory_scope_device);
}"""
DOUBLE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


class OpenCL(Language):
    """doubles: the device has float64; progress: groups may wait for one another; subgroup: so
    many neighbours exchange values (1: none)."""

    types = _TYPES
    functions = {f"{op}.{t}": name for op, name in _FUNCTIONS.items() for t in ("f32", "f64")}

    def __init__(self, doubles: bool, progress: bool = False, subgroup: int = 1) -> None:
        self.subgroup = subgroup
        self.soft_double = not doubles
        self.prologue = (DOUBLE if doubles else "") + PROLOGUE + (SYNC if progress else "")

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        return f"as_{self.value_type(goal)}({text})"

    def array(self, array: c.Array) -> str:
        return f"{_SPACES[array.space]}{self.memory_type(array.dtype)} {array.name}[{array.size}];"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def sync(self, kind: str) -> str:
        return f"sync_{kind}"

    def exchange(self, op: str, text: str, number: int, dtype: DType) -> str:
        if dtype.kind == "bool":
            return f"({_EXCHANGES[op]}((uchar)({text}), {number}u) != 0)"
        return f"{_EXCHANGES[op]}({text}, {number}u)"

    def kernel_head(
        self, kernel: c.Kernel, buffers: Sequence[tuple[str, DType, bool]]
    ) -> list[str]:
        listed = [
            f"    __global {'' if written else 'const '}{self.memory_type(dtype)} *{name},"
            for name, dtype, written in buffers
        ]
        width = f"__attribute__((intel_reqd_sub_group_size({self.subgroup})))"
        return [
            f"__kernel __attribute__((reqd_work_group_size({kernel.threads}, 1, 1)))",
            *([width] if c.uses_subgroup(kernel.body) else []),
            f"void {kernel.name}(",
            *listed,
            "    __global const long *numbers, const long first_word, __global long *status)",
            "{",
            "numbers += first_word;",
        ]

    def group_head(self, kernel: c.Kernel) -> list[str]:
        return ["const long group_id = get_group_id(0);", "const long thread_id = get_local_id(0);"]
