"""Targets out of range are an error of the fused loss, wherever their values come from."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.losses import chunks

loss_of = torch.nn.functional.linear_cross_entropy
X, W = torch.randn(6, 4), torch.randn(9, 4)
BAD = "Target 12 is out of bounds. It is at position 3 of the target."


def changed():
    target = torch.tensor([0, 1, 2, 0, 5, 8])
    target[3] = 12
    return target


TARGETS = {
    "in memory": lambda: torch.tensor([0, 1, 2, 12, 5, 8]),
    "pending": lambda: torch.tensor([0, 1, 2, 4, 5, -100]) * 3,
    "changed in place": changed,
    "view": lambda: torch.tensor([[0, 1], [1, 1], [2, 1], [12, 1], [5, 1], [8, 1]])[:, 0],
}


@pytest.fixture(params=["by tokens", "by classes"])
def order(request, monkeypatch):
    if request.param == "by classes":
        monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", TARGETS)
def test_the_position_is_named(name, reduction, order):
    x = X.clone().requires_grad_()
    with pytest.raises(IndexError) as found:
        loss_of(x, W, TARGETS[name](), reduction=reduction)
    assert str(found.value) == BAD


def test_every_target_is_looked_at():
    target = np.zeros(1 << 17, np.int64)
    target[100_000] = 9
    with pytest.raises(IndexError, match="position 100000"):
        loss_of(torch.zeros(1 << 17, 4), W, torch.tensor(target))


def test_a_compiled_call_checks_targets_that_it_computes(order):
    call = torch.compile(lambda target: loss_of(X, W, target * 2), fullgraph=True)
    good = torch.tensor([0, 1, 2, 3, -50, 4])
    want = loss_of(X, W, good * 2).item()
    assert [call(good).item() for _ in range(3)] == pytest.approx([want] * 3)
    with pytest.raises(IndexError, match="index out of range"):
        call(torch.tensor([0, 1, 2, 3, 4, 5])).item()


def test_a_batched_target_is_checked():
    call = torch.vmap(lambda x, target: loss_of(x, W, target))
    with pytest.raises(IndexError):
        call(X.reshape(2, 3, 4), torch.tensor([[0, 1, 2], [3, 4, 9]])).tolist()


def test_a_loss_on_meta_has_a_shape_only():
    x, w = (t.to("meta").requires_grad_() for t in (X, W))
    target = torch.zeros(6, dtype=torch.int64, device="meta")
    loss = loss_of(x, w, target, reduction="none")
    assert loss.is_meta and loss.shape == (6,)
