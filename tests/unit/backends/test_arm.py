"""64-bit Arm from an x86 machine: features of CPUs from what they say of themselves, code for them,
and its results under qemu. **No Arm hardware was at hand**: emulated, so nothing is said of speed.
"""

from __future__ import annotations

import numpy as np
import pytest
from cfamily_cases import programs_of
from cross_run import MISSING, compiled, run_under_qemu

from rushlight.backends.llvm.build import lower
from rushlight.backends.llvm.caps import split_target
from rushlight.backends.llvm.jit import assembly_of
from rushlight.backends.llvm.targets import caps_for, describe
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.run import different_bits, run_on

NEOVERSE = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm"
SVE = "jscvt fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm"
APPLE = "fp asimd aes sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc asimddp"


def linux(features: str, implementer: int, part: int) -> str:
    return (
        f"processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: {features}\n"
        f"CPU implementer\t: {implementer:#x}\nCPU architecture: 8\nCPU part\t: {part:#05x}\n\n"
        "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n"
    )


CPUS = {
    "graviton 2": linux(f"{NEOVERSE} lrcpc dcpop asimddp ssbs", 0x41, 0xD0C),
    "graviton 3": linux(f"{NEOVERSE} {SVE} ssbs dcpodp svei8mm svebf16 i8mm bf16", 0x41, 0xD40),
    "graviton 4": linux(f"{NEOVERSE} {SVE} sb sve2 sveaes svebf16 i8mm bf16 bti", 0x41, 0xD4F),
    "sve2 512": linux(f"{NEOVERSE} {SVE} sve2 bf16", 0x41, 0xFFF),
    "apple on linux": linux(APPLE, 0x61, 0x022),
    "apple": "machdep.cpu.brand_string: Apple M2 Pro\nhw.optional.arm.FEAT_BF16: 1\n",
    "avx2": "flags\t\t: fpu sse sse2 pni ssse3 sse4_1 sse4_2 avx avx2 fma f16c bmi1\n",
    "avx512": "flags\t: sse sse2 sse4_1 avx avx2 fma f16c avx512f avx512vl avx512bw avx512dq\n",
    "amx": "flags\t: sse2 avx avx2 fma avx512f avx512vl avx512bw avx512dq amx_tile amx_bf16\n",
}


def features_of(name: str) -> str:
    found = describe(CPUS[name])
    return found[: found.rindex("|")] + "|512" if name == "sve2 512" else found


@pytest.mark.parametrize(("name", "cpu", "nbytes", "has", "has_not"), [
    ("graviton 2", "neoverse-n1", 16, "+dotprod", "sve"),
    ("graviton 3", "neoverse-v1", 32, "+sve", "sve2"),
    ("graviton 4", "neoverse-v2", 16, "+sve2", "avx"),
    ("apple on linux", "apple-m1", 16, "+fullfp16", "sve"),
    ("apple", "apple-m2", 16, "+bf16", "i8mm"),
    ("avx2", "x86-64-v3", 32, "+f16c", "avx512"),
    ("avx512", "x86-64-v4", 64, "+avx512dq", "amx"),
    ("amx", "x86-64-v4", 64, "+amx-bf16", "sve"),
])  # fmt: skip
def test_features_are_what_the_cpu_says(name, cpu, nbytes, has, has_not) -> None:
    found = features_of(name)
    target = split_target(found)
    assert (target.cpu, target.vector_bytes) == (cpu, nbytes)
    assert has in target.features.split(",") and has_not not in target.features
    assert target.fma


def test_a_text_about_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="got a text without 'flags'"):
        describe("processor : 0\n")
    with pytest.raises(ValueError, match="got the Mac 'Intel"):
        describe("machdep.cpu.brand_string: Intel(R) Core(TM) i7\n")


CASES = {case.name: case for case in template_cases()}


def pending(name: str):
    return [root for root in CASES[name].build() if not root.leaf]


@pytest.mark.parametrize("name", CPUS)
def test_every_kind_of_program_compiles(name: str) -> None:
    caps = caps_for(features_of(name))
    for case in ("softmax_rows", "dot", "attention_causal", "sort", "scatter_rows", "scan"):
        _, data = compiled(pending(case), caps)
        assert data[:4] == b"\xcf\xfa\xed\xfe" if "macosx" in caps.features else b"\x7fELF"


@pytest.mark.parametrize(("name", "register"), [
    ("graviton 2", "v"), ("graviton 3", "z"), ("sve2 512", "z"),
])  # fmt: skip
def test_vectors_are_those_of_the_cpu(name: str, register: str) -> None:
    caps = caps_for(features_of(name))
    module, _ = lower(programs_of(pending("dot")), caps)
    text = assembly_of(str(module), split_target(caps.features))
    fused = [line for line in text.splitlines() if "fmla" in line or "fmad" in line]
    assert any(f"{register}0." in line or f"\t{register}" in line for line in fused)
    assert (register == "z") == any("\tz" in line for line in fused)


RUN = [
    "softmax_rows", "softmax_columns", "sum_all", "dot", "dot_float64", "scan", "sort", "gather",
    "scatter_rows", "attention_causal", "integers", "low_precision", "exp", "erf", "float_casts",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize("name", RUN)
@pytest.mark.parametrize(("target", "cpu"), [
    ("graviton 2", "max,sve=off"), ("graviton 4", "max,sve128=on"),
    ("graviton 3", "max,sve256=on"), ("sve2 512", "max,sve512=on"),
])  # fmt: skip
def test_results_are_those_of_this_machine(name, target, cpu, tmp_path) -> None:
    """The same orders and our own polynomials: the same bits."""
    roots = list(dict.fromkeys(pending(name)))
    wanted = run_on("llvm", roots)
    found = run_under_qemu(roots, caps_for(features_of(target)), cpu, tmp_path)
    for root, have, want in zip(roots, found, wanted, strict=True):
        assert not different_bits(have, np.asarray(want)), f"{root.name}"
