"""Fractional pooling with given draws and adaptive pooling of odd sizes, against PyTorch."""

import numpy as np
import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from tests.parity.common import assert_same_error, random_array, to_ours, to_real  # noqa: E402

SHAPES = {
    1: [(2, 3, 11), (3, 7)],
    2: [(2, 3, 7, 9), (3, 11, 7)],
    3: [(2, 2, 7, 9, 8), (2, 9, 7, 7)],
}
FRACTIONS = [{"output_size": 2}, {"output_size": (3, 4, 2)}, {"output_ratio": (0.6, 0.4, 0.5)}]
SIZES = [1, 3, 5, (3, None, 2), (5, 7, 3), (13, 4, 10)]


def both(name, values, *args, **kwargs):
    """What the function of each module gives, and the gradients of its squares' sum."""
    found = []
    for module, convert in ((torch, to_ours), (real, to_real)):
        x = convert(values).requires_grad_()
        given = {k: convert(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        out = getattr(module.nn.functional, name)(x, *args, **given)
        outs = out if isinstance(out, tuple) else (out,)
        (outs[0] ** 2).sum().backward()
        found.append([*(o.detach().numpy() for o in outs), x.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def first(value, count):
    return value[:count] if isinstance(value, tuple) else value


@pytest.mark.parametrize("kernel, dtype", [(3, "float32"), ((2, 3, 2), "float64")], ids=str)
@pytest.mark.parametrize("given", FRACTIONS, ids=str)
@pytest.mark.parametrize("spatial", [2, 3])
def test_fractional_pooling_with_given_draws(spatial, given, kernel, dtype):
    given = {name: first(value, spatial) for name, value in given.items()}
    for shape in SHAPES[spatial]:
        lead = shape[: len(shape) - spatial]
        for seed in range(2):
            rng = np.random.default_rng(seed)
            draws = rng.random((lead[0] if len(lead) == 2 else 1, lead[-1], spatial)).astype(dtype)
            both(
                f"fractional_max_pool{spatial}d",
                random_array(shape, seed).astype(dtype),
                first(kernel, spatial),
                return_indices=True,
                _random_samples=draws,
                **given,
            )


@pytest.mark.parametrize("spatial, shape, kernel, size", [
    (2, (1, 1, 4, 9), 3, (3, 2)), (2, (1, 1, 9, 4), 3, (2, 3)),
    (3, (1, 1, 4, 9, 9), 3, 2), (3, (1, 1, 9, 9, 4), 3, 2), (2, (1, 1, 9, 9), 3, None),
])  # fmt: skip
def test_windows_that_do_not_fit(spatial, shape, kernel, size):
    values, name = random_array(shape, 0), f"fractional_max_pool{spatial}d"
    assert_same_error(
        lambda: getattr(torch.nn.functional, name)(to_ours(values), kernel, size),
        lambda: getattr(real.nn.functional, name)(to_real(values), kernel, size),
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_adaptive_pooling_of_odd_sizes(spatial, kind, size):
    options = {"return_indices": True} if kind == "max" else {}
    for seed, shape in enumerate(SHAPES[spatial]):
        both(f"adaptive_{kind}_pool{spatial}d", random_array(shape, seed), first(size, spatial),
             **options)  # fmt: skip


def holes(shape, seed):
    """Whole numbers, many of them equal, with NaN and -inf among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, shape).astype(np.float32)
    values[rng.random(shape) < 0.25] = np.nan
    values[rng.random(shape) < 0.1] = -np.inf
    return values


NAN_POOLS = {
    "max_pool": [(2,), (3, 2, 1), (3, 1, 1, 2), (3, 2, 1, 1, True), (5, 2, 1)],
    "adaptive_max_pool": [(1,), (3,), (4,)],
}


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("kind", NAN_POOLS)
def test_the_last_nan_and_the_first_of_equal_elements_stand_for_a_window(kind, spatial):
    for seed, settings in enumerate(NAN_POOLS[kind]):
        for make in (holes, lambda shape, seed: np.nan_to_num(holes(shape, seed), neginf=-5)):
            values = make((2, 3, 7, 9, 8)[: spatial + 2], seed)
            both(f"{kind}{spatial}d", values, *settings, return_indices=True)


@pytest.mark.parametrize("spatial", [2, 3])
def test_the_last_nan_of_a_drawn_window(spatial):
    values = holes((2, 3, 9, 8, 7)[: spatial + 2], 3)
    draws = np.full((2, 3, spatial), 0.3, np.float32)
    both(f"fractional_max_pool{spatial}d", values, 2, 3, return_indices=True, _random_samples=draws)
