"""Products of rows that indices pick: each index is read where it exists, and nowhere else.

Behind the indices that are used lie numbers that are no indices, so whoever reads on is found out.
"""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F

ROWS = 50
SIZES = [(2, 33, 128), (20, 257, 100), (70, 64, 300)]


def indices(count: int) -> torch.Tensor:
    found = torch.arange(count + 64) * 7 % ROWS
    found[count:] = 1 << 40
    return found[:count]


def settled(*tensors):
    for tensor in tensors:
        tensor.sum().item()
    return tensors


def check(f, want) -> None:
    for call in (f, torch.compile(f)):
        for _ in range(3):
            got = call().detach().double().clone().numpy()
            np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


PICKS = {
    "index": lambda w, at: w[at],
    "index_select": lambda w, at: w.index_select(0, at),
    "embedding": lambda w, at: F.embedding(at, w),
    "gather": lambda w, at: w.gather(0, at[:, None].expand(-1, w.shape[1])),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
@pytest.mark.parametrize("m,k,n", SIZES)
def test_rows_of_either_side(m, k, n, pick, dtype):
    at, at_m, at_n = indices(k), indices(m), indices(n)
    w, x = torch.randn(ROWS, n).to(dtype), torch.randn(m, k).to(dtype)
    u, v = torch.randn(ROWS, k).to(dtype), torch.randn(ROWS, m).to(dtype)
    settled(at, at_m, at_n, w, x, u, v)
    ints = np.arange(max(m, k, n)) * 7 % ROWS
    w_, x_, u_, v_ = (t.double().clone().numpy() for t in (w, x, u, v))
    check(lambda: x @ pick(w, at), x_ @ w_[ints[:k]])
    check(lambda: x @ pick(u, at_n).t(), x_ @ u_[ints[:n]].T)
    check(lambda: pick(u, at_m) @ x.t(), u_[ints[:m]] @ x_.T)
    check(lambda: pick(v, at).t() @ pick(w, at), v_[ints[:k]].T @ w_[ints[:k]])


def test_integers_and_batches():
    at, w = indices(101), torch.randint(-9, 9, (ROWS, 128)).to(torch.int8)
    x, batch = torch.randint(-9, 9, (20, 101)).to(torch.int8), torch.randn(4, 20, 101)
    settled(at, w, x, batch)
    ints = np.arange(101) * 7 % ROWS
    check(lambda: torch._int_mm(x, w[at]), x.double().numpy() @ w.double().numpy()[ints])
    check(lambda: batch @ w[at].float(), batch.double().numpy() @ w.double().numpy()[ints])


@pytest.mark.parametrize("queries", [1, 3, 40])
def test_attention_over_picked_keys(queries):
    at = indices(37)
    q, table = torch.randn(2, 4, queries, 64), torch.randn(2, 4, ROWS, 64)
    settled(q, table, at)
    ints = np.arange(37) * 7 % ROWS
    q_, t_ = q.double().numpy(), table.double().numpy()[:, :, ints]
    scores = q_ @ t_.swapaxes(2, 3) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ t_

    def f():
        keys = table.index_select(2, at)
        return F.scaled_dot_product_attention(q, keys, keys)

    with torch.no_grad():
        check(f, want)
