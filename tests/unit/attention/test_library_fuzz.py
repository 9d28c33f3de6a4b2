"""Every mask with every score_mod against full scores in float64, forward and gradients."""

import ml_dtypes
import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import masks, score_mods
from rushlight.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from tests.unit.attention.library_cases import MODS, PARAMETERS, library_case

# numpy's dtype, the tolerance of outputs, and of gradients.
DTYPES = {
    torch.float32: (np.float32, 1e-5, 4e-5),
    torch.float64: (np.float64, 1e-12, 1e-11),
    torch.bfloat16: (ml_dtypes.bfloat16, 2e-2, 6e-2),
    torch.float16: (np.float16, 2e-3, 6e-3),
}
SIZES = (16, 32, 64, 128, (128, 32), (16, 256))


def check(name, mod, seed, dtype, longest):
    rng = np.random.default_rng(seed)
    of_numpy, *tolerances = DTYPES[dtype]
    case = library_case(name, mod, rng, of_numpy, longest)
    q, k, v, g = (torch.tensor(case.arrays[x]).to(dtype) for x in "qkvg")
    leaves = {"d_q": q, "d_k": k, "d_v": v}
    if case.captured is not None:
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        leaves["d_captured"] = torch.tensor(case.captured).to(wide)
    for x in leaves.values():
        x.requires_grad_()
    size = SIZES[rng.integers(len(SIZES))]
    mask = create_block_mask(case.mask_mod, None, None, *case.lengths, BLOCK_SIZE=size)
    out, aux = flex_attention(
        q, k, v, case.score_mod(torch, leaves.get("d_captured")), mask, enable_gqa=True,
        return_aux=AuxRequest(lse=True),
    )  # fmt: skip
    out.backward(g)
    want = case.answer()
    found = {"out": out, "lse": aux.lse} | {n: x.grad for n, x in leaves.items()}
    assert set(found) == set(want)
    for part, got in found.items():
        got = np.zeros(want[part].shape) if got is None else got.detach().double().numpy()
        assert got.shape == want[part].shape
        tolerance = tolerances[part.startswith("d_")]
        # Sums of many pairs: as large as all of them may be wrong.
        scale = max(1.0, abs(want[part]).max(initial=0)) if part.startswith("d_") else 1.0
        np.testing.assert_allclose(
            got, want[part], rtol=tolerance, atol=tolerance * scale, err_msg=f"{part} {size}"
        )


def test_every_mask_and_score_mod_is_here():
    assert set(PARAMETERS) == set(masks.__all__)
    assert set(MODS) == {"none", *score_mods.__all__} - {"alibi_slopes"}


@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_library(name, mod):
    seed = 100 * list(PARAMETERS).index(name) + MODS.index(mod)
    check(name, mod, seed, list(DTYPES)[seed % 4], 80)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_library_at_length(name, mod, dtype):
    first = 1000 * (list(PARAMETERS).index(name) + 1) + 100 * MODS.index(mod)
    for seed in range(first, first + 3):
        check(name, mod, seed, dtype, 300)
