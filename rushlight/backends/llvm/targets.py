"""CPUs that need not be here: what the text that a CPU says of itself means for the compiler.

In: the text of Linux' /proc/cpuinfo, or of macOS' `sysctl machdep.cpu hw.optional`. Out: features
as `caps.split_target` takes them. Always true: a pure function; nothing of this machine is asked.

    implementer 0x41, part 0xd4f, "... sve2"  ->  neoverse-v2|+neon,...,+sve2|aarch64-...|128
"""

from __future__ import annotations

import re

from rushlight.backends.llvm.caps import ONE_PASS_ROWS, split_target
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Caps

# (implementer, part) -> LLVM's name of the core, bits of its scalable vectors (0: it has none).
CORES: dict[tuple[int, int], tuple[str, int]] = {
    (0x41, 0xD0C): ("neoverse-n1", 0),  # Graviton 2, Ampere Altra
    (0x41, 0xD40): ("neoverse-v1", 256),  # Graviton 3
    (0x41, 0xD49): ("neoverse-n2", 128),
    (0x41, 0xD4F): ("neoverse-v2", 128),  # Graviton 4, Grace
    (0x41, 0xD84): ("neoverse-v3", 128),
    (0x61, 0x022): ("apple-m1", 0),
    (0x61, 0x032): ("apple-m2", 0),
}
APPLE_CHIPS = {"M1": "apple-m1", "M2": "apple-m2", "M3": "apple-m3", "M4": "apple-m4"}

# What Linux calls a feature -> what LLVM does. What is not here changes no code of ours.
ARM = {
    "fp": "fp-armv8", "asimd": "neon", "atomics": "lse", "asimdhp": "fullfp16", "asimdrdm": "rdm",
    "asimddp": "dotprod", "asimdfhm": "fp16fml", "fcma": "complxnum", "lrcpc": "rcpc", "sve": "sve",
    "sve2": "sve2", "bf16": "bf16", "i8mm": "i8mm", "sme": "sme",
}  # fmt: skip
X86 = {
    "pni": "sse3", "ssse3": "ssse3", "sse": "sse", "sse2": "sse2", "sse4_1": "sse4.1",
    "sse4_2": "sse4.2", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "bmi1": "bmi",
    "bmi2": "bmi2", "popcnt": "popcnt", "avx512f": "avx512f", "avx512vl": "avx512vl",
    "avx512bw": "avx512bw", "avx512dq": "avx512dq", "avx512cd": "avx512cd",
    "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "amx_tile": "amx-tile", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8",
}  # fmt: skip
# What every Mac with Apple's chips has.
APPLE = ("neon", "fp-armv8", "lse", "fullfp16", "rdm", "dotprod", "fp16fml", "complxnum", "rcpc")
LINUX_ARM, LINUX_X86 = "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"
MAC = "arm64-apple-macosx11.0.0"


def describe(text: str) -> str:
    """`Caps.features` of the CPU that a text is about.

    Raises ValueError where the text names neither an x86 nor a 64-bit Arm.
    """
    said = _fields(text)
    if "machdep.cpu.brand_string" in said:
        return _mac(said)
    if "Features" in said and "CPU implementer" in said:
        return _arm(said)
    if "flags" in said:
        known = [X86[word] for word in said["flags"].split() if word in X86]
        level = "x86-64-v4" if "avx512vl" in known else "x86-64-v3" if "avx2" in known else "x86-64"
        return f"{level}|{_added(known)}|{LINUX_X86}|0"
    raise ValueError(
        "describe: got a text without 'flags' (x86), 'Features' (Arm) or "
        "'machdep.cpu.brand_string' (macOS); give /proc/cpuinfo or `sysctl machdep.cpu hw.optional`"
    )


def caps_for(features: str, threads: int = 1) -> Caps:
    """That CPU as a target: programs are compiled for it, not run here."""
    return Caps(
        "llvm",
        features=features,
        vector_bytes=split_target(features).vector_bytes,
        threads=threads,
        one_pass_rows=ONE_PASS_ROWS * threads,
        dtypes=frozenset(d.name for d in (*ALL_DTYPES, *BYTE_FLOATS)),
    )


def _fields(text: str) -> dict[str, str]:
    """Of the first processor."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def _arm(said: dict[str, str]) -> str:
    core = int(said["CPU implementer"], 16), int(said.get("CPU part", "0"), 16)
    words = said["Features"].split()
    known = [ARM[word] for word in words if word in ARM]
    name, bits = CORES.get(core, ("generic", 0))
    # A core that is not known may have vectors of any length: those of 128 bits all have.
    bits = (bits or 128) if "sve" in known else 0
    return f"{name}|{_added(known)}|{LINUX_ARM}|{bits}"


def _mac(said: dict[str, str]) -> str:
    brand = said["machdep.cpu.brand_string"]
    chip = re.search(r"Apple (M\d)", brand)
    if chip is None:
        raise ValueError(f"describe: got the Mac {brand!r}, allowed are those with Apple's chips")
    more = [
        name
        for flag, name in (("FEAT_BF16", "bf16"), ("FEAT_I8MM", "i8mm"))
        if said.get(f"hw.optional.arm.{flag}") == "1"
    ]
    return f"{APPLE_CHIPS.get(chip[1], 'apple-m1')}|{_added([*APPLE, *more])}|{MAC}|0"


def _added(names: list[str]) -> str:
    return ",".join(f"+{name}" for name in dict.fromkeys(names))
