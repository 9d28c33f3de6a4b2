"""Random index expressions, read and written, against numpy (whose rules are PyTorch's here)."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch


def random_key(rng, shape):
    """Pairs (for torch, for numpy) of items; advanced items share one broadcast shape."""
    items, batch = [], [(), (3,), (2, 1)][int(rng.integers(0, 3))]
    for size in shape[: int(rng.integers(1, len(shape) + 1))]:
        kind = int(rng.integers(0, 6))
        if kind == 0:
            items.append(int(rng.integers(-size, size)))
        elif kind == 1:
            low, high = sorted(rng.integers(-size, size + 1, 2))
            items.append(slice(int(low), int(high), int(rng.integers(1, 3))))
        elif kind == 2 and batch:
            items.append(rng.integers(-size, size, batch))
        elif kind == 3:
            items.append(slice(None))
            if len(items) < 3:
                items.insert(0, None)
        elif kind == 4:
            items.append(rng.integers(0, 2, size).astype(bool) if not batch else slice(1, None))
        else:
            items.append(slice(None))
    if rng.integers(0, 3) == 0:
        items.append(Ellipsis)
    return tuple(items)


def for_torch(key):
    return tuple(torch.tensor(item) if isinstance(item, np.ndarray) else item for item in key)


def has_split_advanced(key):
    """An int between slices counts as advanced in numpy, not in PyTorch: results may differ."""
    advanced = any(isinstance(item, np.ndarray) for item in key)
    return advanced and any(isinstance(item, int) for item in key)


@pytest.mark.parametrize("seed", range(120))
def test_get_and_set(seed):
    rng = np.random.default_rng(seed)
    array = rng.integers(0, 100, (4, 3, 5)).astype(np.float32)
    key = random_key(rng, array.shape)
    if has_split_advanced(key):
        key = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in key)
    t = torch.tensor(array)
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            t[for_torch(key)]
        return
    got = t[for_torch(key)]
    assert tuple(got.shape) == expected.shape
    np.testing.assert_array_equal(got.detach().numpy(), expected)
    value = rng.integers(0, 50, expected.shape).astype(np.float32)
    written, copy = torch.tensor(array), array.copy()
    written[for_torch(key)] = torch.tensor(value)
    copy[key] = value
    np.testing.assert_array_equal(written.numpy(), copy)
    written[for_torch(key)] = 3
    copy[key] = 3
    np.testing.assert_array_equal(written.numpy(), copy)


def test_slice_starts_are_not_part_of_the_program():
    """x[i:i+2] for many i builds no new program (starts are inputs)."""
    from rushlight.engine.realize import PROGRAMS

    x = torch.arange(100.0)
    total = 0.0
    for i in range(5):
        total += x[i : i + 2].sum().item()
    before = len(PROGRAMS.templates) if hasattr(PROGRAMS, "templates") else None
    for i in range(5, 30):
        total += x[i : i + 2].sum().item()
    if before is not None:
        assert len(PROGRAMS.templates) == before
    assert total == sum(2 * i + 1 for i in range(30))


def test_index_tensor_that_is_pending():
    x = torch.arange(10) * 2
    i = torch.tensor([1, -1]) + 0
    assert x[i].tolist() == [2, 18]
    y = torch.zeros(4)
    y[torch.tensor([3]) - 4] = 5
    assert y.tolist() == [0, 0, 0, 5]


def test_a_short_list_with_more_than_numbers_is_a_tuple():
    x = torch.arange(24.0).reshape(2, 3, 4)
    shapes = [
        ([[0, 1], [1, 0]], (2, 4)), ([torch.tensor(0), torch.tensor(1)], (4,)),
        ([slice(0, 1), None], (1, 1, 3, 4)), ([..., 0], (2, 3)), ([np.array([0, 1]), 0], (2, 4)),
        ([0, 1], (2, 3, 4)), ([True, False], (1, 3, 4)), ([[0, 1]] * 32, (32, 2, 3, 4)),
    ]  # fmt: skip
    for key, shape in shapes:
        assert x[key].shape == shape


def test_views_of_a_leaf_that_is_a_view():
    leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf.t().add_(1)
    with torch.no_grad():
        leaf.t()[0] = 7
    assert leaf.tolist() == [[7, 1, 2], [7, 4, 5]]
    (leaf.t()[1:] * 2).sum().backward()
    assert leaf.grad.tolist() == [[0, 2, 2], [0, 2, 2]]
