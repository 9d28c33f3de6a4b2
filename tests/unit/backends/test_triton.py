"""Triton kernels: their text, what they compute in Triton's interpreter, what GPUs would get."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cfamily_cases import programs_of, square_product

import rushlight as torch
from rushlight import ops
from rushlight.backends import find_backend
from rushlight.backends.triton.driver_impl import caps_of
from rushlight.backends.triton.module_text import lowered
from rushlight.backends.triton.space import FLASH_SPACE, default_schedule, space_of
from rushlight.base.config import config
from rushlight.compiler.target import Missing
from rushlight.ir.node import Node
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.testing.conformance import Case, check, template_cases
from rushlight.testing.conformance.cases import leaf

GOLDEN = Path(__file__).with_name("golden")
CASES = {case.name: case for case in template_cases()}
CAPS = caps_of("golden")
HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="pip install triton")


def pending(name: str) -> list[Node]:
    return [root for root in CASES[name].build() if not root.leaf]


def text_of(name: str) -> str:
    return find_backend("triton").lower_text(programs_of(pending(name))[0], CAPS)


@pytest.mark.parametrize("name", ["softmax_rows", "dot_epilogue", "gather"])
def test_text_is_the_golden_one(name: str) -> None:
    """To accept new text: delete the file, run again, look at the difference."""
    path = GOLDEN / f"{name}.triton.txt"
    text = text_of(name)
    if not path.exists():
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", CASES)
def test_every_text_is_python(name: str) -> None:
    for program in programs_of(pending(name), vary=True):
        compile(find_backend("triton").lower_text(program, CAPS), name, "exec")


def test_products_are_those_of_tensor_cores() -> None:
    assert 'tl.dot(a_tile, b_tile, acc, input_precision="ieee")' in text_of("dot_epilogue")


def test_attention_is_two_products_and_no_scratch() -> None:
    text = text_of("attention_causal")
    assert 'acc_0 = tl.dot(a_tile, b_tile, acc_0, input_precision="ieee")' in text
    assert 'sums_0 = tl.dot(x_0, other_tile, sums_0 * shrink, input_precision="ieee")' in text
    assert "debug_barrier" not in text


def test_a_store_that_is_read_again_waits_on_both_sides() -> None:
    lines = [line.strip() for line in text_of("sort").splitlines()]
    places = [i for i, line in enumerate(lines) if line.startswith("tl.store") and "_keys" in line]
    assert places
    for at in places:
        before = next(x for x in reversed(lines[:at]) if not x.startswith("tl.store"))
        after = next(x for x in lines[at:] if not x.startswith("tl.store"))
        assert before == after == "tl.debug_barrier()"


def test_without_a_launcher_it_is_missing_and_says_what_to_do() -> None:
    with config.override(triton_interpret=False):
        found = find_backend("triton").find()
    assert isinstance(found, Missing)
    assert ("RUSHLIGHT_TRITON_INTERPRET=1" in found.fix) == HAS_TRITON


@pytest.fixture
def interpreter():
    with config.override(triton_interpret=True, cache=False):
        yield


FAST = [
    "softmax_rows", "sum_columns", "sum_all", "dot", "scan", "gather", "scatter_rows", "argmax",
    "low_precision", "float_casts", "edges_float32", "attention_causal",
]  # fmt: skip


@needs_triton
@pytest.mark.parametrize("name", FAST)
def test_interpreted_kernels_compute_what_they_say(name: str, interpreter) -> None:
    outcome = check(CASES[name], "triton")
    assert outcome.status == "supported", outcome.text


def spaces() -> list:
    dot = programs_of(square_product().build())[0].grids[0]
    rows = {plan.rows: plan for plan in FLASH_SPACE}  # warps and stages mean nothing in numpy
    return [(square_product(), plan) for plan in space_of(dot)] + [
        (CASES["attention_causal"], plan) for plan in rows.values()
    ]


@needs_triton
@pytest.mark.parametrize(("case", "plan"), spaces(), ids=lambda value: value.name)
def test_every_schedule_computes_the_same(case: Case, plan, interpreter, monkeypatch) -> None:
    module = importlib.import_module("rushlight.backends.triton.build")
    monkeypatch.setattr(module, "lowered", partial(lowered, wanted=plan))
    outcome = check(case, "triton")
    assert outcome.status == "supported", outcome.text


def test_a_space_begins_with_the_default_and_fits_the_product() -> None:
    (program,) = programs_of(square_product().build())
    (grid,) = program.grids
    first, *others = space_of(grid)
    assert first == default_schedule(grid) and first not in others
    assert all(plan.bm <= first.bm and plan.bn <= first.bn for plan in others)
    assert {plan.stages for plan in space_of(programs_of(pending("attention"))[0].grids[0])} == {
        1, 2, 3,
    }  # fmt: skip
    assert first.name.startswith(f"bm{first.bm}_bn{first.bn}_bk{first.bk}_warps4_stages")


@needs_triton
def test_explain_tells_who_made_a_product_and_how_it_is_cut(interpreter) -> None:
    with config.override(backend="triton", max_autotune_gemm_backends="CUTLASS,TRITON"):
        a = torch.ones(4, 5)
        seen = torch.explain(lambda: (a @ a.T).sum().item())
    told = [str(pick) for page in seen.kernels.values() for pick in page.picks]
    assert any(x.startswith("triton") and "no CuTe kernel for interpreted" in x for x in told)
    assert any(x.startswith("bm16_bn16_bk16") for x in told)


def windows() -> dict[str, np.ndarray]:
    """A mask of blocks, queries that see nothing, a changed score, a score that is NaN."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 150, 16, requires_grad=True) for _ in range(3))

    def kept(b, h, i, j):
        return (i >= j) & (i - j < 90) & ((i < 10) | (i > 20))

    def changed(score, b, h, i, j):
        return torch.where((h == 1) & (i == 140), float("nan"), torch.tanh(score / 5) * 5)

    mask = create_block_mask(kept, None, None, 150, 150)
    out = flex_attention(q, k, v, changed, mask)
    (out[:, :, :140] ** 2).sum().backward()
    named = {"out": out.detach(), "q": q.grad, "k": k.grad, "v": v.grad}
    return {name: tensor.numpy() for name, tensor in named.items()}


@needs_triton
def test_flex_attention_by_tiles_is_that_of_llvm(interpreter) -> None:
    wanted = windows()
    with config.override(backend="triton"):
        found = windows()
    assert np.isnan(wanted["out"]).sum() == 16 and not wanted["out"][0, 0, 12].any()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@needs_triton
def test_nothing_is_touched_outside_of_a_buffer(interpreter, monkeypatch) -> None:
    """Every address that is read or written, also by programs of empty tensors."""
    from triton.runtime.interpreter import InterpreterBuilder

    from rushlight.backends.triton.interpret_impl import InterpreterSession

    sessions, touched = [], []
    begin = InterpreterSession.__init__

    def remembered(self, pointers, nbytes, words, plan) -> None:
        begin(self, pointers, nbytes, words, plan)
        own = [(self.words.ctypes.data, self.words.nbytes), (self._status.ctypes.data, 8)]
        sessions.append([*zip(map(int, pointers), nbytes, strict=True), *own])

    def looked_at(name):
        plain = getattr(InterpreterBuilder, name)

        def look(self, pointers, *args, **kwargs):
            mask = args[0] if name.endswith("load") else args[1]
            wanted = np.broadcast_to(pointers.data, mask.data.shape)[mask.data]
            inside = np.zeros(wanted.shape, bool)
            for start, size in sessions[-1]:
                inside |= (wanted >= np.uint64(start)) & (wanted < np.uint64(start + size))
            assert inside.all()
            touched.append(wanted.size)
            return plain(self, pointers, *args, **kwargs)

        return look

    monkeypatch.setattr(InterpreterSession, "__init__", remembered)
    for name in ("create_masked_load", "create_masked_store"):
        monkeypatch.setattr(InterpreterBuilder, name, looked_at(name))
    empty = Case("empty", "by hand", "", lambda: [ops.neg(leaf(np.zeros((0, 3), np.float32)))])
    for case in (empty, CASES["scatter_elements"], CASES["dot_epilogue"], CASES["sum_rows"]):
        outcome = check(case, "triton")
        assert outcome.status == "supported", outcome.text
    assert sum(touched) > 1000


@needs_triton
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_kernels_compile_for_gpus_that_are_not_here(target: str) -> None:
    """In a process of its own: Triton's language may mean numpy in this one."""
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import ml_dtypes, numpy as np
from cfamily_cases import programs_of
from rushlight import ops
from rushlight.backends.triton.compile_impl import compile_for
from rushlight.backends.triton.space import Schedule
from rushlight.testing.conformance import template_cases
from rushlight.testing.conformance.cases import leaf
cases = {{case.name: case for case in template_cases()}}
# Stages: how many pieces are fetched ahead.
flat = [leaf(np.zeros(shape, ml_dtypes.bfloat16)) for shape in ((128, 256), (256, 128))]
for stages in (1, 3):
    plan = Schedule(128, 128, 64, 8, stages)
    for one in compile_for(programs_of([ops.dot(*flat)]), {target!r}, plan):
        print("STAGES", stages, one.threads, one.shared_bytes, one.assembly.count("cp.async."))
for name in ("softmax_rows", "low_precision", "gather", "scan", "attention_causal"):
    roots = [root for root in cases[name].build() if not root.leaf]
    for one in compile_for(programs_of(roots), {target!r}):
        assert one.binary and one.name in one.assembly
        print(one.assembly)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    nvidia = r"mma\S*\.bf16|tcgen05\.mma"
    tensor_core = r"v_mfma_\w*bf16" if target.startswith("gfx") else nvidia
    assert re.search(tensor_core, done.stdout)
    one, three = re.findall(r"STAGES \d (\d+) (\d+) (\d+)", done.stdout)
    assert int(three[1]) > int(one[1]) and int(one[2]) == 0
    # On sm_100 TMA's successor loads; AMD's chips have no such instruction.
    assert (int(three[2]) > 0) == (target in ("sm_80", "sm_90", "sm_100")), done.stdout[-300:]
