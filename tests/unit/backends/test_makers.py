"""Who makes products on a GPU: the settings, the choice and its reasons, what is measured."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest
from cfamily_cases import programs_of

import rushlight as torch
from rushlight import ops
from rushlight.backends import products
from rushlight.backends.cute.claims import Product, claim
from rushlight.backends.cute.maker import claimed
from rushlight.base.config import SettingError, config
from rushlight.base.errors import BackendError
from rushlight.compiler.tile.ir import Program
from rushlight.runtime import tuning
from rushlight.runtime.cache import DiskCache
from rushlight.runtime.tuning import Tuned, tune
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.cases import leaf

HAS_CUTE = importlib.util.find_spec("cutlass") is not None
INSTALLED = [] if HAS_CUTE else ["cute_cannot: nvidia-cutlass-dsl is missing"]


def product_of(*shape: int, kind: type = ml_dtypes.bfloat16) -> Program:
    m, n, k = shape
    (program,) = programs_of([ops.dot(leaf(np.zeros((m, k), kind)), leaf(np.zeros((k, n), kind)))])
    return program


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The choice is looked at, nothing is compiled: the extra need not be here."""
    monkeypatch.setattr("rushlight.backends.cute.maker.is_installed", lambda: True)
    tuning.forget()


def test_triton_is_taken_where_nothing_is_asked() -> None:
    maker, decision = products.choose(product_of(128, 128, 64), "sm_90", "triton")
    assert maker is None
    assert str(decision) == "triton   first_that_can: of ATEN,TRITON,CPP"


@pytest.mark.parametrize("name", ["CUTLASS", "CUTEDSL", "NVGEMM"])
def test_the_first_that_is_named_is_taken(name: str) -> None:
    with config.override(max_autotune_gemm_backends=f"ATEN,{name},TRITON"):
        maker, decision = products.choose(product_of(128, 128, 64), "sm_90", "triton")
    assert maker is not None and maker.name == decision.choice == "cute"
    assert any(reason.startswith("not_measured") for reason in decision.reasons)


def test_pytorchs_setting_and_the_articles_alias_are_heard() -> None:
    from rushlight._inductor import config as inductor

    assert config.max_autotune_gemm_backends == "ATEN,TRITON,CPP"
    with inductor.patch(max_autotune_gemm_backends="triton, cutlass"):
        assert products.asked() == ("TRITON", "CUTLASS")
        assert config.source("max_autotune_gemm_backends") == "program"
    with inductor.patch({"cuda.cutlass_backend": True}):
        assert products.asked() == ("CUTLASS", "ATEN", "TRITON", "CPP")
        with config.override(max_autotune_gemm_backends="TRITON"):
            assert products.asked() == ("TRITON",)
    torch._inductor.config.cuda.cutlass_backend = True
    try:
        assert products.asked()[0] == "CUTLASS"
    finally:
        torch._inductor.config.cuda.cutlass_backend = False
    assert not config.max_autotune
    with inductor.patch(cutedsl_enable_autotuning=True):
        assert config.max_autotune
    with inductor.patch(max_autotune_gemm_backends="CUDNN"):
        with pytest.raises(SettingError, match="'CUDNN'.*CUTLASS"):
            products.asked()


@pytest.mark.parametrize(("shape", "kind", "chip", "why"), [
    ((128, 128, 64), np.float32, "sm_90", "operand_dtype: float32"),
    ((128, 128, 63), ml_dtypes.bfloat16, "sm_90", "multiples of 8, not 63"),
    ((128, 128, 64), ml_dtypes.bfloat16, "sm_80", "no CuTe kernel for sm_80"),
    ((128, 128, 64), ml_dtypes.bfloat16, "interpreted", "no CuTe kernel for interpreted"),
])  # fmt: skip
def test_what_cute_cannot_do_falls_to_triton_with_the_reason(shape, kind, chip, why) -> None:
    with config.override(max_autotune_gemm_backends="CUTLASS"):
        maker, decision = products.choose(product_of(*shape, kind=kind), chip, "triton")
    assert maker is None and decision.choice == "triton"
    assert any("cute_cannot" in reason and why in reason for reason in decision.reasons)


def test_a_missing_extra_is_a_reason(monkeypatch) -> None:
    monkeypatch.setattr("rushlight.backends.cute.maker.is_installed", lambda: False)
    with config.override(max_autotune_gemm_backends="CUTLASS"):
        maker, decision = products.choose(product_of(128, 128, 64), "sm_90", "triton")
    assert maker is None and "rushlight[cute]" in str(decision)


def test_where_a_device_is_the_fastest_is_taken_and_told() -> None:
    def measure(able):
        assert list(able) == ["cute", "triton"]
        return Tuned("triton", "measured", {"cute": 2.0, "triton": 1.5})

    with config.override(max_autotune_gemm_backends="CUTLASS,TRITON"):
        maker, decision = products.choose(product_of(128, 128, 64), "sm_90", "triton", measure)
    assert maker is None
    assert str(decision) == "triton   measured, cute: 2.000 ms, triton: 1.500 ms"


def test_operands_lie_as_tma_wants_them() -> None:
    found = claim(product_of(128, 96, 64), "sm_90")
    assert not isinstance(found, list)
    assert (found.a.across, found.a.along, found.a.is_k_major) == (64, 1, True)
    assert (found.b.across, found.b.along, found.b.is_k_major) == (1, 96, False)


def test_a_size_that_varies_is_no_multiple_of_anything() -> None:
    kind = ml_dtypes.bfloat16
    a, b = leaf(np.zeros((128, 64), kind)), leaf(np.zeros((64, 128), kind))
    (program,) = programs_of([ops.dot(a, b)], vary=True)
    found = claim(program, "sm_90")
    assert isinstance(found, list) and "multiples of 8" in found[0]


@pytest.mark.parametrize("chip", ["sm_90", "sm_100"])
def test_every_kind_of_tile_program_is_refused_with_a_reason(chip) -> None:
    """They are all in float32, or no products: nothing of cutlass is needed to say so."""
    reasons = set()
    for case in template_cases():
        for program in programs_of([root for root in case.build() if not root.leaf]):
            found = claimed(program, chip)
            assert isinstance(found, list) and found and all(found), (case.name, program.name)
            reasons |= set(found)
    for why in ("not a product of matrices alone", "float32", "float64", "int64", "bins", "cast"):
        assert any(why in reason for reason in reasons), why


@pytest.mark.parametrize("chip", ["sm_90", "sm_100"])
def test_products_of_16_bits_are_claimed_for_both_chips(chip) -> None:
    for kind in (np.float16, ml_dtypes.bfloat16):
        assert isinstance(claimed(product_of(136, 40, 72, kind=kind), chip), Product)


# --------------------------------------------------------------------------------------- the tuner


def test_the_fastest_is_kept_on_disk_and_what_cannot_run_is_left_out(tmp_path) -> None:
    disk, calls = DiskCache(tmp_path / "cache", 1 << 20), []

    def refusing() -> float:
        raise BackendError("too much shared memory")

    def taking(ms: float):
        return lambda: calls.append(ms) or ms

    candidates = {"slow": taking(3.0), "fast": taking(1.0), "huge": refusing}
    first = tune("k", candidates, disk)
    assert (first.name, first.how) == ("fast", "measured")
    assert first.reasons() == (
        "measured", "slow: 3.000 ms", "fast: 1.000 ms", "huge: too much shared memory",
    )  # fmt: skip
    tuning.forget()
    again = tune("k", candidates, disk)
    assert (again.name, again.how, calls) == ("fast", "cached", [3.0, 1.0])
    tuning.forget()
    disk.put(tuning.PREFIX + "k", b"{not json")
    assert tune("k", candidates, disk).how == "measured"
    tuning.forget()
    assert tune("k", {"other": taking(5.0)}, disk).name == "other"
    with pytest.raises(BackendError, match="no candidate.*too much"):
        tune("none", {"huge": refusing})
