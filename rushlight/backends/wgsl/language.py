"""WGSL as a Language. Indices are i32; shared memory and buffers are module variables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rushlight.backends.cfamily import code as c
from rushlight.backends.cfamily.language import Language
from rushlight.base.dtypes import DType, int32, int64, uint32, uint64

PROLOGUE = """\
// Not literals: a shader may not contain an infinity or a NaN.
var<private> infinity_bits: u32 = 0x7f800000u;
var<private> nan_bits: u32 = 0x7fc00000u;

// Compilers may take (x + big) - big for x; what they cannot see through stays a rounding.
fn opaque(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ u32(status[1])); }

// The order of signed numbers without signs: lavapipe (Mesa 22.3) compares some i64 wrongly.
fn order(x: i64) -> u64 { return u64(x) ^ 9223372036854775808lu; }

// 0 for an index out of range, which is told to the host.
fn check_index(index: i64, size: i64, site: i64) -> i64 {
    let inside = u64(index) < u64(size);
    if (!inside) { status[0] = site; }
    return select(0li, index, inside);
}"""

_LARGE = re.compile(r"\d\.\d+e\+\d+f")  # the constants of rounding to whole numbers


class WGSL(Language):
    types = {
        "bool": "bool", "float32": "f32", "int32": "i32", "uint32": "u32", "int64": "i64",
        "uint64": "u64",
    }  # fmt: skip
    stored = {"bool": "u32"}
    functions = {
        "fma.f32": "fma", "sqrt.f32": "sqrt", "floor.f32": "floor", "ceil.f32": "ceil",
        "trunc.f32": "trunc", "rint.f32": "round", "abs.f32": "abs",
    }  # fmt: skip
    index = int32
    wraps = True
    soft_double = True
    suffix = {"float32": "f", "int32": "i", "uint32": "u", "int64": "li", "uint64": "lu"}
    infinity = "bitcast<f32>(infinity_bits)"
    not_a_number = "bitcast<f32>(nan_bits)"
    unroll = ""
    prologue = PROLOGUE

    def cast(self, text: str, dtype: DType) -> str:
        return f"{self.value_type(dtype)}({text})"

    def convert(self, text: str, source: DType, goal: DType) -> str:
        # naga takes the sign of the source from the goal.
        wide = {uint32: uint64, int32: int64}.get(source)
        is_other = goal.kind != source.kind and goal in (int64, uint64)
        return self.cast(self.cast(text, wide) if is_other and wide else text, goal)

    def hidden(self, text: str, dtype: DType) -> str:
        kind = self.value_type(dtype)
        hides = {"f32": f"opaque({text})", "bool": text}
        return hides.get(kind) or f"({text} ^ {kind}(status[1]))"

    def bitcast(self, text: str, source: DType, goal: DType) -> str:
        return f"bitcast<{self.value_type(goal)}>({text})"

    def select(self, condition: str, a: str, b: str) -> str:
        return f"select({b}, {a}, {condition})"  # reads outside of a buffer are harmless

    def operation(self, op: str, dtype: DType, args: Sequence[str], source: DType) -> str:
        if op == "xor" and dtype.kind == "bool":
            op = "ne"
        if op == "ne" and args[0] == args[1]:  # is it NaN? Compilers may say there is none
            return f"((bitcast<u32>({args[0]}) & 0x7fffffffu) > 0x7f800000u)"
        if op in ("lt", "le", "gt", "ge") and source is int64:
            args = [f"order({arg})" for arg in args]
        if op == "sub" and _LARGE.fullmatch(args[1]):
            args = [f"opaque({args[0]})", args[1]]
        if op in ("raw_shl", "raw_shr"):
            number = re.fullmatch(r"(\d+)(i|u|li|lu)?", args[1])
            by = f"{number[1]}u" if number else f"u32({args[1]})"
            return f"({args[0]} {'<<' if op == 'raw_shl' else '>>'} {by})"
        return super().operation(op, dtype, args, source)

    def exchange(self, op: str, text: str, number: int, dtype: DType) -> str:
        """Words of 32 bits are exchanged."""
        how = op.removeprefix("subgroup_").capitalize().replace("At", "")
        word = f"subgroupShuffle{how}({{}}, {number}u)".format
        low, high = word(f"u32({text})"), word(f"u32(u64({text}) >> 32u)")
        if dtype.kind == "bool":
            return f"({low} != 0u)"
        is_wide = self.carrier(dtype).itemsize == 8
        return self.cast(f"(u64({low}) | (u64({high}) << 32u))", dtype) if is_wide else word(text)

    def load(self, place: str, dtype: DType) -> str:
        return f"({place} != 0u)" if dtype.kind == "bool" else place

    def store(self, place: str, value: str, dtype: DType) -> str:
        return f"{place} = {f'u32({value})' if dtype.kind == 'bool' else value};"

    def check_index(self, value: str, size: str, site: int) -> str:
        return f"check_index({value}, {size}, {site}li)"

    def declare(self, dtype: DType, name: str, value: str, changes: bool) -> str:
        return f"{'var' if changes else 'let'} {name}: {self.value_type(dtype)} = {value};"

    def loop(self, name: str, start: str, stop: str, step: str) -> str:
        return f"for (var {name}: i32 = {start}; {name} < {stop}; {name} += {step})"

    def array(self, array: c.Array) -> str:
        return "" if array.space == "shared" else f"var {self._declared(array)};"

    def _declared(self, array: c.Array) -> str:
        return f"{array.name}: array<{self.memory_type(array.dtype)}, {array.size}>"

    def barrier(self) -> str:
        return "workgroupBarrier(); storageBarrier();"  # scratch lies in buffers

    def function(self, name: str, parameters: Sequence[tuple[str, DType]], result: DType) -> str:
        listed = ", ".join(f"{p}: {self.value_type(dtype)}" for p, dtype in parameters)
        return f"fn {name}({listed}) -> {self.value_type(result)}"

    def kernel_head(
        self, kernel: c.Kernel, buffers: Sequence[tuple[str, DType, bool]]
    ) -> list[str]:
        # All may be written: one buffer may be bound twice, and then both must allow the same.
        bound = [(name, "read_write", self.memory_type(dtype)) for name, dtype, _ in buffers]
        bound += [("numbers", "read", "i64"), ("status", "read_write", "i64")]
        return [
            *(
                f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{kind}>;"
                for i, (name, access, kind) in enumerate(bound)
            ),
            *(f"var<workgroup> {self._declared(a)};" for a in kernel.arrays if a.space == "shared"),
            "",
            f"@compute @workgroup_size({kernel.threads})",
            f"fn {kernel.name}(@builtin(workgroup_id) group_position: vec3<u32>,",
            "    @builtin(local_invocation_index) thread_position: u32) {",
        ]

    def group_head(self, kernel: c.Kernel) -> list[str]:
        return ["let group_id = i32(group_position.x);", "let thread_id = i32(thread_position);"]
