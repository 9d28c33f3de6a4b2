"""Numbers of one byte: every code is read right, every number becomes the nearest code."""

import ml_dtypes
import numpy as np
import pytest

import rushlight as torch

# ml_dtypes has the same values; what is too large saturates here in e4m3fn (PyTorch 2.13's rule).
PLAIN = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
ALL = (*PLAIN, "float8_e8m0fnu")


def codes(tensor):
    return np.array(tensor.view(torch.uint8).tolist(), np.uint8)


@pytest.mark.parametrize("name", ALL)
def test_every_code_is_read_as_its_number(name):
    bits = np.arange(256, dtype=np.uint8)
    got = torch.from_numpy(bits).view(getattr(torch, name)).to(torch.float64).numpy()
    np.testing.assert_array_equal(got, bits.view(getattr(ml_dtypes, name)).astype(np.float64))


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("source", [np.float32, np.float16])
def test_numbers_become_the_nearest_code(name, source):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(20000) * np.exp(rng.uniform(-14, 5, 20000))).astype(source)
    ours = codes(torch.from_numpy(x).to(getattr(torch, name)))
    np.testing.assert_array_equal(ours, x.astype(getattr(ml_dtypes, name)).view(np.uint8))


@pytest.mark.parametrize("name", PLAIN)
def test_ties_and_their_neighbours(name):
    """Halfway between two codes: the even one; a float64 hair above or below decides."""
    dtype = getattr(torch, name)
    bits = np.arange(127, dtype=np.uint8)
    values = bits.view(getattr(ml_dtypes, name)).astype(np.float64)
    keep = np.isfinite(values[:-1]) & np.isfinite(values[1:])
    low, high, code = values[:-1][keep], values[1:][keep], bits[:-1][keep]
    half = (low + high) / 2
    below, above = np.nextafter(half, 0), np.nextafter(half, 9e9)
    for x, want in ((half, code + (code & 1)), (below, code), (above, code + 1)):
        np.testing.assert_array_equal(codes(torch.from_numpy(x).to(dtype)), want)


def test_what_is_too_large():
    x = torch.tensor([464.0, 465.0, 1e30, float("inf"), -float("inf"), float("nan")])
    assert x.to(torch.float8_e4m3fn).tolist()[:5] == [448.0] * 4 + [-448.0]
    assert np.isnan(x.to(torch.float8_e4m3fn).tolist()[5])
    assert x.to(torch.float8_e5m2).tolist()[2:5] == [float("inf")] * 2 + [-float("inf")]
    assert np.isnan(x.to(torch.float8_e4m3fnuz).tolist()[1:]).all()
    assert x.to(torch.float8_e8m0fnu).view(torch.uint8).tolist()[3:] == [255, 255, 255]


def test_powers_of_two_round_by_the_fraction():
    below = float(np.nextafter(np.float32(1.5), np.float32(0)))
    x = torch.tensor([1.0, below, 1.5, 3.0, 0.0, 2.0**-127, -8.0])
    assert x.to(torch.float8_e8m0fnu).view(torch.uint8).tolist() == [127, 127, 128, 129, 0, 0, 130]


def test_bytes_are_moved_but_not_computed_with():
    x = torch.tensor([1.0, -2.0, 3.5, 0.25]).to(torch.float8_e5m2)
    assert torch.cat([x[2:], x.flip(0)[:1]]).tolist() == [3.5, 0.25, 0.25]
    assert x.reshape(2, 2).t().contiguous().tolist() == [[1.0, 3.5], [-2.0, 0.25]]
    assert torch.where(torch.tensor([True, False, True, False]), x, x[:1]).tolist() == [
        1,
        1,
        3.5,
        1,
    ]
    with pytest.raises(NotImplementedError, match="add.*Float8_e5m2"):
        x + x
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        x + torch.ones(4)


def test_memory_read_as_numbers_of_another_size():
    x = torch.arange(16, dtype=torch.uint8).reshape(2, 8)
    whole = x.numpy()
    for name, kind in (("int16", np.int16), ("float32", np.float32), ("int64", np.int64)):
        view = x.view(getattr(torch, name))
        np.testing.assert_array_equal(view.numpy(), whole.view(kind))
        np.testing.assert_array_equal(view.view(torch.uint8).numpy(), whole)
    view = x.view(torch.int16)
    view[1, 0] = 258
    assert x[1, :2].tolist() == [2, 1]
    assert view[1].stride() == (1,) and view[1].storage_offset() == 4
    with pytest.raises(RuntimeError, match="divisible by 4 to view Byte as Float"):
        x[:, :6].view(torch.float32)
    with pytest.raises(RuntimeError, match=r"self.stride\(-1\) must be 1"):
        x.t().view(torch.int16)
