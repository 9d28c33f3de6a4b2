"""flex_attention, BlockMask and their errors beside PyTorch's (which has no backward on CPUs)."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import flex_attention as real  # noqa: E402

import rushlight  # noqa: E402
from rushlight.nn.attention import flex_attention as ours  # noqa: E402
from tests.parity.common import assert_same_error, random_array  # noqa: E402

SIDES = ((rushlight, ours), (torch, real))
pytestmark = pytest.mark.filterwarnings("ignore")
MASKS = {
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i - j).abs() < 20,
    "heads": lambda b, h, i, j: (i + h) % 3 != j % 3,
    "rows without keys": lambda b, h, i, j: (i > j) & (i % 7 != 0),
}
MODS = {
    "none": None,
    "distance": lambda s, b, h, i, j: s + 0.1 * (j - i) * (h + 1),
    "cap": lambda s, b, h, i, j: 2.0 * (s / 2.0).tanh(),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("mod", MODS)
def test_forward(mask, mod):
    rows, keys = 50, 70
    arrays = [random_array(s, n) for n, s in enumerate(
        ((2, 4, rows, 8), (2, 2, keys, 8), (2, 2, keys, 6)))]  # fmt: skip
    found = []
    for module, flex in SIDES:
        q, k, v = (module.from_numpy(a) for a in arrays)
        block_mask = flex.create_block_mask(
            MASKS[mask], 2, 4, rows, keys, device="cpu", BLOCK_SIZE=16
        )
        found.append(flex.flex_attention(
            q, k, v, MODS[mod], block_mask, enable_gqa=True, return_lse=True
        ))  # fmt: skip
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=2e-5)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("lengths", "size"), [((64, 96), 16), ((96, 64), (32, 16))])
def test_block_masks(mask, lengths, size):
    a, b = (
        flex.create_block_mask(
            MASKS[mask], 2, 4, *lengths, device="cpu", BLOCK_SIZE=size,
            compute_dq_write_order=True, dq_kv_order=size == 16,
        )
        for _, flex in SIDES
    )  # fmt: skip
    for name in b._TENSOR_ATTRS:
        got, want = getattr(a, name), getattr(b, name)
        assert (got is None) == (want is None), name
        if want is not None:
            assert str(got.dtype) == str(want.dtype), name
            assert got.tolist() == want.tolist(), name
    assert a.sparsity() == pytest.approx(b.sparsity())
    assert str(a) == str(b) and repr(a) == repr(b)
    for grid in (20, 3, -1, (2, 5)):
        assert a.to_string(grid) == b.to_string(grid)
    for make in (lambda m: m[0, 1], lambda m: m[:, -1, 1:3], lambda m: m._adjust(40, 33)):
        one, two = make(a), make(b)
        assert one.shape == two.shape and one.to_dense().tolist() == two.to_dense().tolist()
        assert one.q_num_blocks.tolist() == two.q_num_blocks.tolist()
        assert [type(x).__name__ for x in one.as_tuple()] == [
            type(x).__name__ for x in two.as_tuple()
        ]


def bad_calls(module, flex):
    """Calls that PyTorch refuses, by name."""
    q, k = module.zeros(1, 4, 8, 8), module.zeros(1, 2, 8, 8)
    call = flex.flex_attention

    def mask(**settings):
        return flex.create_block_mask(
            lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu", **settings
        )

    return {
        "heads": lambda: call(q, k, k),
        "3d": lambda: call(q[0], q[0], q[0]),
        "group": lambda: call(q[:, :3], k, k, enable_gqa=True),
        "width": lambda: call(q, q[..., :6], q),
        "mask too long": lambda: call(q, q, q, block_mask=mask()),
        "mask too short": lambda: call(*[module.zeros(1, 1, 32, 8)] * 3, block_mask=mask()),
        "batch": lambda: call(module.zeros(2, 4, 8, 8), q, q),
        "backend": lambda: call(q, q, q, kernel_options={"BACKEND": "X"}),
        "backend and force": lambda: call(
            q, q, q, kernel_options={"BACKEND": "AUTO", "FORCE_USE_FLEX_ATTENTION": True}
        ),
        "lse twice": lambda: call(q, q, q, return_lse=True, return_aux=flex.AuxRequest()),
        "sliced": lambda: call(*[module.zeros(1, 1, 16, 8)] * 3, block_mask=mask()[0, 0]),
        "arity": lambda: flex.create_block_mask(lambda a, b, c: a, 1, 1, 4, 4, device="cpu"),
        "dtype": lambda: flex.create_block_mask(
            lambda b, h, i, j: i * 1.0, 1, 1, 4, 4, device="cpu"
        ),
        "order": lambda: mask(dq_kv_order=3),
        "not callable": lambda: flex.or_masks(3),
        "one dimension": lambda: flex.BlockMask.from_kv_blocks(module.zeros(1), module.zeros(1)),
    }


@pytest.mark.parametrize("name", bad_calls(rushlight, ours))
def test_errors(name):
    assert_same_error(bad_calls(*SIDES[0])[name], bad_calls(*SIDES[1])[name])
