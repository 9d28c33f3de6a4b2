"""What this CPU can do: found through LLVM, narrowed by an override such as "-avx512f".

Caps.features is "cpu|+a,-b,..." and holds all that changes the code, so it can be a cache key. For
another machine it goes on: "...|triple|bits of its scalable vectors" (targets.py). A feature that
LLVM does not know: "+emulated-amx", tile registers in memory, for tests; "+products-medium" and
"+products-high", what a program allows (dot_precision.py).
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from rushlight.base.config import available_cores
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Caps, Missing

try:
    import llvmlite.binding as llvm
except OSError as error:  # no room for LLVM, say: the first error says why
    reason = error.__context__ or error
    raise BackendError(f"the backend 'llvm' cannot be loaded: {reason}") from error

# Below these an x86 has no rounding instructions, and code would need calls to libm.
BASELINE_X86 = ("sse4.1",)
AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
AMX = ("amx-tile", "amx-bf16", "amx-int8")
EMULATED = "emulated-amx"
# Rows for each thread from which running sums are made in one pass: some rows are an instance.
ONE_PASS_ROWS = 4
PRODUCTS = ("products-medium", "products-high")


@dataclass(frozen=True)
class Target:
    """Caps.features taken apart, as the emitters ask for it. `triple`: "" is this machine's."""

    cpu: str
    features: str
    vector_bytes: int
    avx512: bool  # masks on loads, stores and selects of every width
    fma: bool
    f16c: bool
    bfloat16_words: bool  # products of two at once (AVX512_BF16)
    int8_words: bool = False  # and of four such integers (AVX512_VNNI)
    tiles: str = ""  # tile registers: "amx", "emulated" or ""
    products: str = ""  # of float32: may be less exact in tile registers, "medium" or "high"
    x86: bool = True
    triple: str = ""
    scalable_bits: int = 0

    @property
    def registers(self) -> int:
        return 32 if self.avx512 or not self.x86 else 16


@functools.cache
def initialize() -> None:
    """Make LLVM ready for the host. Once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def initialize_all() -> None:
    """And for any other machine."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def parse_features(text: str) -> dict[str, bool]:
    """{"avx2": True, ...}; of two mentions the later one counts."""
    items = (item for item in text.split(",") if item)
    return {item[1:]: item[0] == "+" for item in items}


@functools.cache
def split_target(features: str) -> Target:
    """The Target that a Caps.features text describes."""
    cpu, flags, triple, bits = [*features.split("|"), "", "", ""][:4]
    has = parse_features(flags)
    # "-avx512f" after the host's list also takes away what builds on it, as LLVM does.
    avx = has.get("avx", False)
    avx2 = avx and has.get("avx2", False)
    avx512 = avx2 and all(has.get(name, False) for name in AVX512)
    x86, scalable = "sse2" in has, int(bits or 0)
    tiles = "amx" if all(has.get(name, False) for name in AMX) else ""
    tiles = ("emulated" if has.get(EMULATED, False) else tiles) if avx512 and x86 else ""
    allowed = next((name.split("-")[1] for name in PRODUCTS if has.get(name, False)), "")
    ours = (EMULATED, *PRODUCTS)
    return Target(
        cpu=cpu,
        features=",".join(item for item in flags.split(",") if item[1:] not in ours),
        vector_bytes=64 if avx512 else 32 if avx2 else max(16, scalable // 8),
        avx512=avx512,
        fma=not x86 or (avx and has.get("fma", False)),
        f16c=not x86 or (avx and has.get("f16c", False)),
        bfloat16_words=avx512 and has.get("avx512bf16", False),
        int8_words=avx512 and has.get("avx512vnni", False),
        tiles=tiles,
        products=allowed if tiles else "",
        x86=x86,
        triple=triple,
        scalable_bits=scalable,
    )


@functools.cache
def find_caps(override: str = "", threads: int = 0) -> Caps | Missing:
    """The host as a target; `override` is a list like "-avx512f,-fma" added to its features."""
    initialize()
    flags = llvm.get_host_cpu_features().flatten()
    features = f"{llvm.get_host_cpu_name()}|{flags}" + (f",{override}" if override else "")
    has = parse_features(flags)
    if platform.machine() in ("x86_64", "AMD64") and not all(map(has.get, BASELINE_X86)):
        return Missing(f"the llvm backend needs {', '.join(BASELINE_X86)}; this CPU has it not")
    return Caps(
        name="llvm",
        features=features,
        vector_bytes=split_target(features).vector_bytes,
        threads=threads or available_cores(),
        one_pass_rows=ONE_PASS_ROWS * (threads or available_cores()),
        stack_tile_bytes=32 << 10,
        dtypes=frozenset(d.name for d in (*ALL_DTYPES, *BYTE_FLOATS)),
    )
