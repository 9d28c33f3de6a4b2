"""Errors of flex_attention, never above twice those of PyTorch at the same dtype.

Every mask with every score_mod of the library on random shapes; seeds come from the case's place in
the lists. The reference has long doubles; errors are root mean squares over all elements, since the
largest one is a matter of luck. PyTorch's outputs are its flex_attention's; it has no gradients on
CPUs, so those are its autograd's, of the same computation as its own eager form (products in the
dtype, softmax in float32 or float64). Where terms cancel, a quarter of a rounding of the sum of
their magnitudes is allowed to both.
"""

import ml_dtypes
import numpy as np
import pytest

real = pytest.importorskip("torch")

from torch.nn.attention import flex_attention as real_flex  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight.nn.attention import flex_attention as flex  # noqa: E402
from tests.unit.attention.library_cases import MODS, PARAMETERS, library_case  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
}
SIZES = (16, 32, 64, 128, (128, 32), (16, 256))
FACTOR = 2.0


def ours_of(case, dtype, size):
    q, k, v, g, leaves = inputs_of(torch, case, dtype)
    mask = flex.create_block_mask(case.mask_mod, None, None, *case.lengths, BLOCK_SIZE=size)
    out, aux = flex.flex_attention(
        q, k, v, case.score_mod(torch, leaves.get("d_captured")), mask, enable_gqa=True,
        return_aux=flex.AuxRequest(lse=True),
    )  # fmt: skip
    out.backward(g)
    return results_of(out, aux.lse, leaves)


def inputs_of(module, case, dtype):
    kind = getattr(module, dtype)
    q, k, v, g = (module.tensor(case.arrays[x]).to(kind) for x in "qkvg")
    leaves = {"d_q": q, "d_k": k, "d_v": v}
    if case.captured is not None:
        wide = module.float64 if dtype == "float64" else module.float32
        leaves["d_captured"] = module.tensor(case.captured).to(wide)
    for x in leaves.values():
        x.requires_grad_()
    return q, k, v, g, leaves


def results_of(out, lse, leaves):
    found = {"out": out, "lse": lse} | {n: x.grad for n, x in leaves.items()}
    return {n: None if x is None else x.detach().double().numpy() for n, x in found.items()}


def pytorch_of(case, dtype):
    q, k, v, g, leaves = inputs_of(real, case, dtype)
    kept = real.tensor(case.kept)[0, 0]
    mod = case.score_mod(real, leaves.get("d_captured"))
    rows, keys = case.lengths
    group = q.shape[1] // k.shape[1]
    wide = real.float64 if dtype == "float64" else real.float32
    long_k, long_v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (q @ long_k.transpose(-1, -2) * q.shape[-1] ** -0.5).to(wide)
    if mod is not None:
        b, h, i, j = (
            real.arange(n).reshape([-1 if d == at else 1 for d in range(4)])
            for at, n in enumerate(scores.shape)
        )
        scores = mod(scores, b, h, i, j)
    p = real.softmax(scores.masked_fill(~kept, -float("inf")), -1)
    p = p.masked_fill(~kept.any(-1, keepdim=True), 0.0)
    (p.to(q.dtype) @ long_v).backward(g)
    with real.no_grad():
        if not (rows and keys):  # its flex_attention refuses these
            shape = q.shape[:3]
            out, lse = real.zeros(*shape, v.shape[-1]), real.full(shape, -float("inf"))
        else:
            out, lse = real_flex.flex_attention(
                *(x.detach() for x in (q, k, v)), mod, mask_of(kept), enable_gqa=True,
                return_lse=True,
            )  # fmt: skip
    return results_of(out, lse, leaves)


def mask_of(kept):
    return real_flex.create_block_mask(
        lambda b, h, i, j: kept[i, j], None, None, *kept.shape, device="cpu"
    )


def error(got, want):
    """Root of the mean square difference; infinities must be the same."""
    if got is None:
        got = np.zeros(want.shape)
    assert got.shape == want.shape
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    return rms(np.where(finite, got, 0) - np.where(finite, want, 0))


def rms(x):
    return float(np.sqrt(np.mean(x**2))) if x.size else 0.0


def check(name, mod, seed, dtype, longest):
    rng = np.random.default_rng(seed)
    case = library_case(name, mod, rng, DTYPES[dtype], longest)
    size = SIZES[rng.integers(len(SIZES))]
    want, terms = case.answer(np.longdouble), case.terms()
    ours, theirs = ours_of(case, dtype, size), pytorch_of(case, dtype)
    assert set(ours) == set(theirs) == set(want)
    eps = float(ml_dtypes.finfo(DTYPES["float64" if dtype == "float64" else "float32"]).eps)
    for part, exact in want.items():
        bound = FACTOR * error(theirs[part], exact)
        if part in terms:
            bound = max(bound, eps / 4 * rms(terms[part]))
        found = error(ours[part], exact)
        assert found <= bound, (part, found, bound, dtype, size, case.lengths, seed)


@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_error_is_at_most_twice_that_of_pytorch(name, mod):
    seed = 100 * list(PARAMETERS).index(name) + MODS.index(mod)
    check(name, mod, seed, list(DTYPES)[(seed + seed // 100) % 4], 100)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_error_at_length(name, mod, dtype):
    first = 1000 * (list(PARAMETERS).index(name) + 1) + 100 * MODS.index(mod)
    for seed in range(first, first + 2):
        check(name, mod, seed, dtype, 300)
