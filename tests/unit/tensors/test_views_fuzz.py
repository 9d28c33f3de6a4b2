"""Random chains of views, written through views and through numpy, against numpy itself."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch


def random_view(rng, t, a):
    """The same view step on a tensor and on an array; None when it would copy."""
    kind = rng.integers(0, 7)
    ndim = a.ndim
    if kind == 0 and ndim:
        order = rng.permutation(ndim)
        return t.permute(*map(int, order)), a.transpose(order)
    if kind == 1 and ndim:
        d = int(rng.integers(0, ndim))
        if a.shape[d]:
            i = int(rng.integers(-a.shape[d], a.shape[d]))
            key = (slice(None),) * d + (i,)
            return t[key], a[(*key, ...)]  # numpy gives a view, never a number
    if kind == 2 and ndim:
        d = int(rng.integers(0, ndim))
        low, high = sorted(rng.integers(0, a.shape[d] + 1, 2))
        key = (slice(None),) * d + (slice(int(low), int(high), int(rng.integers(1, 3))),)
        return t[key], a[key]
    if kind == 3 and ndim < 5:
        d = int(rng.integers(0, ndim + 1))
        return t.unsqueeze(d), np.expand_dims(a, d)
    if kind == 4 and a.flags.c_contiguous and ndim:
        return t.view(-1), a.reshape(-1)
    if kind == 5 and ndim >= 2:
        return t.diagonal(), np.lib.stride_tricks.as_strided(
            a, (*a.shape[2:], min(a.shape[:2])), (*a.strides[2:], a.strides[0] + a.strides[1])
        )
    if kind == 6 and ndim:
        return t.transpose(0, ndim - 1), a.swapaxes(0, ndim - 1)
    return None


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("shared", ["own", "from_numpy", "numpy()"])
def test_writes_through_random_views(seed, shared):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 100, (3, 4, 2)).astype(np.float32)
    expected = base.copy()
    outside = base.copy()
    root = torch.from_numpy(outside) if shared == "from_numpy" else torch.tensor(base)
    if shared == "numpy()":
        outside = root.numpy()
    views = [(root, expected)]
    for _ in range(25):
        t, a = views[int(rng.integers(0, len(views)))]
        made = random_view(rng, t, a)
        if made is not None and len(views) < 12:
            views.append(made)
        t, a = views[int(rng.integers(0, len(views)))]
        assert tuple(t.shape) == a.shape
        action = rng.integers(0, 4)
        value = float(rng.integers(0, 50))
        if action == 0:
            t.fill_(value)
            a[...] = value
        elif action == 1:
            t.add_(value)
            a += np.float32(value)
        elif action == 2 and a.size:
            new = rng.integers(0, 50, a.shape).astype(np.float32)
            t.copy_(torch.tensor(new))
            a[...] = new
        elif shared != "own":
            outside[1, 2, 0] = value
            expected[1, 2, 0] = value
    for t, a in views:
        np.testing.assert_array_equal(np.array(t.tolist(), np.float32).reshape(a.shape), a)
        if a.size and all(n > 1 for n in a.shape):
            assert t.stride() == tuple(s // 4 for s in a.strides)
    if shared != "own":
        np.testing.assert_array_equal(outside, expected)


def test_version_counts_changes_of_every_view():
    x = torch.zeros(4)
    v = x[1:]
    v.add_(1)
    x.mul_(2)
    assert x._version == v._version == 2 and x.detach()._version == 2 and x.data._version == 0


def test_reads_before_a_write_keep_the_old_value():
    x = torch.ones(3)
    before = x * 2
    x.add_(5)
    assert before.tolist() == [2, 2, 2] and x.tolist() == [6, 6, 6]
    shared = np.ones(3, np.float32)
    t = torch.from_numpy(shared)
    before = t * 2
    shared[:] = 7
    assert before.tolist() == [2, 2, 2] and (t * 2).tolist() == [14, 14, 14]


def test_large_foreign_memory_is_read_before_the_op_returns(monkeypatch):
    monkeypatch.setattr("rushlight.tensors.tensor.SNAPSHOT_BYTES", 4)
    shared = np.ones(3, np.float32)
    t = torch.from_numpy(shared)
    before, part = t * 2, t[1:] + 0
    shared[:] = 7
    assert before.tolist() == [2, 2, 2] and part.tolist() == [1, 1]


def test_dlpack_shares_memory():
    x = torch.zeros(3)
    array = np.from_dlpack(x)
    x[1] = 5
    assert array.tolist() == [0, 5, 0]
    source = np.arange(3.0)
    y = torch.from_dlpack(source)
    source[0] = 9
    assert y.tolist() == [9, 1, 2]


def test_frombuffer_and_strided_arrays():
    raw = bytearray(np.arange(4, dtype=np.int32).tobytes())
    t = torch.frombuffer(raw, dtype=torch.int32, offset=4)
    t[0] = 100
    assert np.frombuffer(raw, np.int32).tolist() == [0, 100, 2, 3]
    array = np.arange(6.0).reshape(2, 3)
    torch.from_numpy(array.T)[2, 1] = -1
    assert array[1, 2] == -1
