"""The three code paths that one AVX-512 machine can run: overrides of the host's features."""

import pytest

from rushlight.backends.llvm.caps import find_caps
from rushlight.compiler.target import Caps

NO_AVX512 = "-avx512f,-avx512vl,-avx512bw,-avx512dq"
GENERIC = f"-avx,-avx2,-fma,-f16c,{NO_AVX512}"
OVERRIDES = {"host": "", "avx2": NO_AVX512, "generic": GENERIC}


def caps_of(name: str) -> Caps:
    """Caps of one code path."""
    caps = find_caps(OVERRIDES[name])
    assert isinstance(caps, Caps), caps
    return caps


each_target = pytest.mark.parametrize("target", list(OVERRIDES))
