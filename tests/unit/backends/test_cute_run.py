"""CuTe's kernels run: their PTX, in numpy (testing/ptx), against llvm. **No GPU was at hand.**

What is planted into the PTX shows that a run sees it: a barrier that nobody waits for, memory that
is given back too early, another stage, operands the other way round, sums that are read too early.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from typing import Any

import pytest
from cute_run import Ran, check_ran, ran_by_llvm

import rushlight as torch
from rushlight.backends.cute.maker import build
from rushlight.engine.realize import flush
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.testing.ptx import Wrong

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None, reason="pip install nvidia-cutlass-dsl"
)
CHIPS = ("sm_90", "sm_100")


@functools.cache
def product_that_ran(m: int, n: int, k: int, batch: int = 1, more: bool = False):
    """a @ b, with the epilogue of a layer if `more`."""
    lead = (batch,) if batch > 1 else ()

    def work() -> None:
        torch.manual_seed(m + n + k)
        a = torch.randn(*lead, m, k, dtype=torch.bfloat16)
        b = torch.randn(*lead, k, n, dtype=torch.bfloat16)
        bias, rest = torch.randn(n, dtype=torch.bfloat16), torch.randn(m, n, dtype=torch.bfloat16)
        flush()
        out = a @ b
        if more:
            out = torch.nn.functional.gelu(out * 0.1 + bias) + rest
        out.float().numpy()

    return the_one(ran_by_llvm(work), "dot")


def the_one(found: list[Ran], name: str) -> Ran:
    (one,) = [x for x in found if name in x.program.name]
    return one


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("seed", [None, 1])
def test_a_product_and_its_epilogue_are_right(chip, seed) -> None:
    """More tiles than the ring has, ends of both sides and of k inside of a tile."""
    check_ran(product_that_ran(136, 24, 328, more=True), chip, seed)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_batch_is_a_dimension_more(chip) -> None:
    check_ran(product_that_ran(64, 64, 64, batch=3), chip)


GO_ON = "mov.pred P1, 1;"
WAITS = r"mbarrier\.try_wait[^;]*;"
FETCH = r"(cp\.async\S+ \[%r\d+)\+(\d+)(\], \[%rd\d+, \{%r\d+, %r\d+\}.*)"
# What is planted -> what is replaced, which occurrence of it (None: all), by what.
FAULTS = {
    "sm_90": {
        "nobody waits for a tile": (WAITS, 1, GO_ON),
        "nobody waits for room": (WAITS, 2, GO_ON),
        "the phase never changes": (WAITS, 1, lambda x: re.sub(r", %r\d+,", ", 0,", x[0])),
        "a tile is never given back": (r"mbarrier\.arrive\.shared\.b64[^;]*;", None, ""),
        "another place": (FETCH, 0, lambda x: f"{x[1]}+{int(x[2]) + 1024}{x[3]}"),
        "rows for columns": (FETCH, 0, lambda x: re.sub(r"\{(%r\d+), (%r\d+)", r"{\2, \1", x[0])),
        "nobody waits for sums": (r"wgmma\.wait_group\S+\s+0;", None, ""),
    },
    "sm_100": {
        "nobody waits for room": (WAITS, 0, GO_ON),
        "nobody waits for a tile": (WAITS, 6, GO_ON),
        "nobody waits for sums": (WAITS, 8, GO_ON),
        "a tile is never given back": (r"tcgen05\.commit[^;]*;", 0, ""),
        "tensor memory is not given back": (r"tcgen05\.dealloc[^;]*;", None, ""),
        "sums before they are loaded": (r"tcgen05\.wait::ld\S*;", None, ""),
        "operands the other way round": (
            r"(tcgen05\.mma\S+ \[%r\d+\], )(%rd\d+), (%rd\d+)", 1, r"\1\3, \2"
        ),
    },
}  # fmt: skip


@functools.cache
def right_kernel(chip: str) -> str:
    ran = product_that_ran(128, 64, 448)
    good = build(ran.program, chip).ptx
    check_ran(ran, chip, ptx=good)
    return good


def planted(ptx: str, what: str, which: int | None, by: Any) -> str:
    if which is None:
        bad = re.sub(what, by, ptx)
    else:
        found = list(re.finditer(what, ptx))[which]
        new = by(found) if callable(by) else found.expand(by)
        bad = ptx[: found.start()] + new + ptx[found.end() :]
    assert bad != ptx, "nothing was planted"
    return bad


@pytest.mark.parametrize(
    ("chip", "fault"), [(chip, fault) for chip, own in FAULTS.items() for fault in own]
)
def test_a_planted_fault_is_seen(chip, fault) -> None:
    ran = product_that_ran(128, 64, 448)
    good = right_kernel(chip)
    assert is_seen(ran, chip, planted(good, *FAULTS[chip][fault]))


# ------------------------------------------------------------------------------------- attention


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def bent(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return torch.tanh(score / 4) * 4 + (j - i) * 0.01


@functools.cache
def attention_that_ran(
    queries: int, keys: int, width: int, score: Any = None, mask: Any = None, heads: int = 2,
    groups: int = 2, dtype: str = "bfloat16",
) -> list[Ran]:  # fmt: skip
    """flex_attention and its gradients."""

    def work() -> None:
        torch.manual_seed(queries + keys + width)
        kind = getattr(torch, dtype)
        q, to = (torch.randn(1, heads, queries, width, dtype=kind) for _ in range(2))
        k, v = (torch.randn(1, groups, keys, width, dtype=kind) for _ in range(2))
        flush()
        for x in (q, k, v):
            x.requires_grad_()
        blocks = None if mask is None else create_block_mask(mask, None, None, queries, keys)
        out = flex_attention(q, k, v, score, blocks, enable_gqa=groups < heads)
        for x in torch.autograd.grad(out, (q, k, v), to):
            x.float().numpy()

    return ran_by_llvm(work)


CASES = {
    "plain": (128, 128, 64),
    "masked": (256, 256, 32, bent, causal),
    "ragged": (72, 200, 16, None, causal),
    "shared keys": (128, 192, 64, bent, None, 4, 2),
    "wide": (64, 128, 128, None, None, 1, 1),
    "float16": (64, 64, 48, None, None, 1, 1, "float16"),
}  # fmt: skip


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", CASES)
def test_attention_forward_is_right(chip, name) -> None:
    check_ran(the_one(attention_that_ran(*CASES[name]), "flash"), chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", CASES)
def test_attention_backward_is_right(chip, name) -> None:
    check_ran(the_one(attention_that_ran(*CASES[name]), "pair_sum"), chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("what", ["flash", "pair_sum"])
def test_attention_is_right_in_any_order(chip, what) -> None:
    ran = the_one(attention_that_ran(*CASES["ragged"]), what)
    ptx = build(ran.program, chip).ptx
    for seed in (1, 5):
        check_ran(ran, chip, seed, ptx)


# Waits, by their place in the text, that others imply: the first one for room, those of a group's
# end that find all done; for products to be read (weights come after that), for the last tile's
# sums (products come after them: tensor cores work in order).
IMPLIED = {"sm_90": {0}, "sm_100": {0, 3, 4, 7, 9, 11}}


@pytest.mark.parametrize("chip", CHIPS)
def test_every_wait_of_attention_is_needed(chip) -> None:
    """Five tiles go through a ring of two. One wait after the other is left out."""
    ran = the_one(attention_that_ran(64, 320, 16, None, None, 1, 1), "flash")
    good = build(ran.program, chip).ptx
    check_ran(ran, chip, None, good)
    count = len(re.findall(WAITS, good))
    missed = {n for n in range(count) if not is_seen(ran, chip, planted(good, WAITS, n, GO_ON))}
    assert missed <= IMPLIED[chip] and count > 2 * len(missed), missed


def is_seen(ran: Ran, chip: str, bad: str) -> bool:
    """Late, or in one of a few orders, it computes something else, or hangs."""
    for seed in (None, 1, 5, 6, 7):
        try:
            check_ran(ran, chip, seed, bad)
        except (Wrong, AssertionError):
            return True
    return False
