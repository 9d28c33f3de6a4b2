"""Indices that nobody has seen yet are in range, or the look at the result is an error."""

import pytest

import rushlight as torch

F = torch.nn.functional
X = torch.arange(6.0).reshape(3, 2)
ONES = torch.ones(2, 2)
# Each takes two indices from 0 to 2; PyTorch counts none of them from the end.
CASES = {
    "index_select": lambda at: torch.index_select(X, 0, at),
    "index_add": lambda at: X.index_add(0, at, ONES),
    "index_add of a vector": lambda at: torch.zeros(3).index_add(0, at, torch.ones(2)),
    "index_copy": lambda at: X.index_copy(0, at, ONES),
    "index_reduce": lambda at: X.index_reduce(0, at, ONES, "amax"),
    "one_hot": lambda at: F.one_hot(at, 3),
    "one_hot of a matrix": lambda at: F.one_hot(at.reshape(2, 1), 3),
    "gather": lambda at: X.gather(0, at.reshape(1, 2)),
    "scatter": lambda at: torch.zeros(2, 3).scatter(1, at.reshape(2, 1), 1.0),
    "embedding": lambda at: F.embedding(at, X),
    "nll_loss": lambda at: F.nll_loss(torch.arange(6.0).reshape(2, 3), at),
}


def pending(values):
    return torch.tensor(values) + torch.tensor([0, 0])


@pytest.mark.parametrize("name", CASES)
def test_good_ones_give_what_known_ones_give(name):
    assert CASES[name](pending([2, 0])).tolist() == CASES[name](torch.tensor([2, 0])).tolist()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bad", [-1, 3])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_bad_ones_are_errors(name, bad, is_compiled):
    run = torch.compile(CASES[name]) if is_compiled else CASES[name]
    for _ in range(4 if is_compiled else 0):
        run(pending([2, 0])).tolist()
    with pytest.raises((IndexError, RuntimeError), match=f"(index|Class|Target) ?.*({bad}|must)"):
        run(pending([0, bad])).tolist()


def test_more_than_are_looked_at_when_recorded():
    at = torch.zeros(1 << 17, dtype=torch.int64)
    at[70_000] = -1
    with pytest.raises(IndexError, match="-1"):
        torch.index_select(X, 0, at).sum().item()
    with pytest.raises(IndexError, match="-1"):
        F.one_hot(at, 3).sum().item()
