"""What this machine can do at most, to hold the results of the workloads against.

    python benchmarks/peak.py [--threads N] [--json]

Machine code made for the purpose runs on all threads at once: a copy of memory with plain and with
non-temporal stores, reads of as much as each level of the caches holds, and multiply-adds between
registers (float32, and bfloat16 where the CPU has `vdpbf16ps` or tile registers). A peak is the
best of a few runs: what the machine does when nothing disturbs.
"""

import argparse
import ctypes
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rushlight.backends.llvm.caps import Target, find_caps, parse_features, split_target  # noqa: E402
from rushlight.backends.llvm.jit import Library, compile_text, load_object  # noqa: E402
from rushlight.backends.llvm.tile_ops import CONFIG  # noqa: E402
from rushlight.backends.llvm.tiles_here import why_not  # noqa: E402

# Chains that hide the latency of a multiply-add: 4-6 cycles, two a cycle.
CHAINS = 14
# Six of the eight tile registers; two are the operands.
TILE_SUMS = 6
TURNS = 2_000_000
COPY_BYTES = 2**28
# What is read again and again, all threads together: levels of the caches, and memory.
READ_MIB, READ_ROUNDS = (1, 8, 32, 256), 8
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
DPBF16 = "llvm.x86.avx512bf16.dpbf16ps.512"


def copy_text(name: str, hint: str) -> str:
    """name(from, to, vectors of 64 bytes)."""
    lines = [
        f"define void @{name}(ptr noalias %a, ptr noalias %b, i64 %n) {{",
        "entry:\n br label %loop",
        "loop:\n %i = phi i64 [0, %entry], [%next, %loop]",
    ]
    for at in range(4):
        lines += [
            f" %k{at} = add i64 %i, {at}",
            f" %p{at} = getelementptr <16 x float>, ptr %a, i64 %k{at}",
            f" %q{at} = getelementptr <16 x float>, ptr %b, i64 %k{at}",
            f" %x{at} = load <16 x float>, ptr %p{at}, align 64",
            f" store <16 x float> %x{at}, ptr %q{at}, align 64{hint}",
        ]
    lines += [
        " %next = add i64 %i, 4\n %more = icmp slt i64 %next, %n",
        " br i1 %more, label %loop, label %done\ndone:\n ret void\n}",
    ]
    return "\n".join(lines)


def read_text(name: str) -> str:
    """name(from, result, vectors of 64 bytes): sums of READ_ROUNDS passes."""
    kind = "<16 x float>"
    lines = [
        f"define void @{name}(ptr noalias %a, ptr noalias %b, i64 %n) {{",
        "entry:\n br label %round",
        "round:\n %r = phi i64 [0, %entry], [%s, %end]\n br label %loop",
        "loop:\n %i = phi i64 [0, %round], [%next, %loop]",
        *(f" %x{at} = phi {kind} [zeroinitializer, %round], [%y{at}, %loop]" for at in range(4)),
    ]
    for at in range(4):
        lines += [
            f" %k{at} = add i64 %i, {at}",
            f" %p{at} = getelementptr {kind}, ptr %a, i64 %k{at}",
            f" %v{at} = load {kind}, ptr %p{at}, align 64",
            f" %y{at} = fadd {kind} %x{at}, %v{at}",
        ]
    lines += [
        " %next = add i64 %i, 4\n %more = icmp slt i64 %next, %n",
        " br i1 %more, label %loop, label %end\nend:",
        *(f" store volatile {kind} %y{at}, ptr %b, align 4" for at in range(4)),
        f" %s = add i64 %r, 1\n %again = icmp slt i64 %s, {READ_ROUNDS}",
        " br i1 %again, label %round, label %done\ndone:\n ret void\n}",
    ]
    return "\n".join(lines)


def chains_text(name: str, lanes: int, operand: str, call: str) -> str:
    """name(operands, result, turns): CHAINS chains of x = call(operand %o, x)."""
    kind = f"<{lanes} x float>"
    chains = range(CHAINS)
    lines = [
        f"define void @{name}(ptr %a, ptr %b, i64 %n) {{",
        f"entry:\n %o = load {operand}, ptr %a, align 4\n br label %loop",
        "loop:\n %i = phi i64 [0, %entry], [%next, %loop]",
        *(f" %x{c} = phi {kind} [zeroinitializer, %entry], [%y{c}, %loop]" for c in chains),
        *(f" %y{c} = {call.format(c=c)}" for c in chains),
        " %next = add i64 %i, 1\n %more = icmp slt i64 %next, %n",
        " br i1 %more, label %loop, label %done\ndone:",
        # Each one is stored, or its chain would be left out.
        *(f" store volatile {kind} %y{c}, ptr %b, align 4" for c in chains),
        " ret void\n}",
    ]
    return "\n".join(lines)


def tiles_text(name: str) -> str:
    """name(configuration, nothing, turns): products of two tiles, added to TILE_SUMS others."""
    lines = [
        f"define void @{name}(ptr %a, ptr %b, i64 %n) {{",
        "entry:\n call void @llvm.x86.ldtilecfg(ptr %a)",
        *(f" call void @llvm.x86.tilezero(i8 {tile})" for tile in range(8)),
        " br label %loop\nloop:\n %i = phi i64 [0, %entry], [%next, %loop]",
        *(f" call void @llvm.x86.tdpbf16ps(i8 {c}, i8 6, i8 7)" for c in range(TILE_SUMS)),
        " %next = add i64 %i, 1\n %more = icmp slt i64 %next, %n",
        " br i1 %more, label %loop, label %done\ndone:",
        " call void @llvm.x86.tilerelease()\n ret void\n}",
        "declare void @llvm.x86.ldtilecfg(ptr)\ndeclare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8)\ndeclare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    ]
    return "\n".join(lines)


def build(target: Target) -> Library:
    """The loops as machine code."""
    lanes = target.vector_bytes // 4
    kind, pairs = f"<{lanes} x float>", "<32 x bfloat>"
    fma = f"call {kind} @llvm.fma.v{lanes}f32({kind} %o, {kind} %o, {kind} %x{{c}})"
    parts = {
        "copy": copy_text("copy", ""),
        "copy_past_caches": copy_text("copy_past_caches", ", !nontemporal !0"),
        "read": read_text("read"),
        "multiply_add": chains_text("multiply_add", lanes, kind, fma),
    }
    rest = f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})\n!0 = !{{i32 1}}\n"
    if parse_features(target.features).get("avx512bf16"):
        call = f"call {kind} @{DPBF16}({kind} %x{{c}}, {pairs} %o, {pairs} %o)"
        parts["bfloat16_pairs"] = chains_text("bfloat16_pairs", lanes, pairs, call)
        rest += f"declare {kind} @{DPBF16}({kind}, {pairs}, {pairs})\n"
    if not why_not(target.features):
        parts["tiles"] = tiles_text("tiles")
    return load_object(compile_text("\n".join([*parts.values(), rest]), target), list(parts))


def aligned(size: int) -> np.ndarray:
    """`size` bytes that start at a cache line, all written."""
    raw = np.ones(size + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:size]


def best_seconds(kernel, areas, count: int, repetitions: int = 7) -> float:
    """The fastest of several runs on as many threads as there are areas (source, target)."""
    times = []
    for _ in range(repetitions):
        threads = [
            threading.Thread(target=kernel, args=(a.ctypes.data, b.ctypes.data, count))
            for a, b in areas
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(threads: int) -> dict[str, float]:
    """Rates by what they limit, named as in a workload's `work`."""
    target = split_target(find_caps().features)
    library = build(target)
    kernels = {name: KERNEL(address) for name, address in library.addresses.items()}
    share = COPY_BYTES // threads // 256 * 256
    areas = [(aligned(share), aligned(share)) for _ in range(threads)]
    moved = 2.0 * share * threads
    rates = {
        "plain copy": moved / best_seconds(kernels["copy"], areas, share // 64),
        "byte": moved / best_seconds(kernels["copy_past_caches"], areas, share // 64),
    }
    for mib in READ_MIB:
        part = (mib << 20) // threads // 256 * 256
        parts = [(aligned(part), aligned(64)) for _ in range(threads)]
        seconds = best_seconds(kernels["read"], parts, part // 64)
        rates[f"{mib} MiB read"] = READ_ROUNDS * part * threads / seconds
    small = [(np.zeros(64, np.float32), np.zeros(64, np.float32)) for _ in range(threads)]
    done = 2.0 * CHAINS * TURNS * threads * (target.vector_bytes // 4)
    rates["flop"] = done / best_seconds(kernels["multiply_add"], small, TURNS)
    if "bfloat16_pairs" in kernels:
        rates["bfloat16 flop"] = 2 * done / best_seconds(kernels["bfloat16_pairs"], small, TURNS)
    if "tiles" in kernels:  # the most that the machine does with bfloat16
        config = np.frombuffer(CONFIG, np.uint8)
        seconds = best_seconds(kernels["tiles"], [(config, config)] * threads, TURNS // 16)
        rates["bfloat16 flop"] = 2.0 * TILE_SUMS * 16**2 * 32 * (TURNS // 16) * threads / seconds
    return rates


TITLES = {
    "plain copy": ("copy, plain stores", "GB/s, read + write"),
    "byte": ("copy, non-temporal stores", "GB/s, read + write"),
    **{f"{mib} MiB read": (f"reads of {mib} MiB", "GB/s") for mib in READ_MIB},
    "flop": ("float32 multiply-add", "GFLOP/s"),
    "bfloat16 flop": ("bfloat16 pairs or tiles", "GFLOP/s"),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="one JSON object, in units per second")
    args = parser.parse_args(argv)
    rates = measure(args.threads)
    if args.json:
        print(json.dumps(rates))
        return 0
    print(f"{args.threads} threads")
    for name, rate in rates.items():
        title, unit = TITLES[name]
        print(f"{title:<28} {rate / 1e9:8.1f} {unit}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
