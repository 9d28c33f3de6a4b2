"""A loss whose classes are spread over shards equals the loss of one weight."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.losses import VocabularyShard, by_classes, chunks, linear_cross_entropy, merge_shards
from rushlight.losses.chunks import Settings

CUTS = [(0, 5), (5, 6), (6, 13)]


def shards_of(x, w, b, target, weight, settings, cuts):
    soft = target.is_floating_point()
    return [
        VocabularyShard(
            x, w[a:z], None if b is None else b[a:z], target[:, a:z] if soft else target,
            weight, settings, a, w.shape[0],
        )
        for a, z in cuts
    ]  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("cuts", [[(0, 7), (7, 13)], CUTS])
def test_shards_give_the_loss_and_gradients_of_the_whole(reduction, soft, cuts, monkeypatch):
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 9)
    monkeypatch.setattr(by_classes, "TOKENS_AT_ONCE", 3)
    rng = np.random.default_rng(len(cuts))
    rows, classes, depth, width = 8, 13, 2, 4
    x, w, b = (
        torch.tensor(rng.standard_normal(shape)).requires_grad_()
        for shape in ((rows, width), (classes, depth, width), (classes, depth))
    )
    hard = torch.tensor(rng.integers(0, classes, (rows, depth)))
    hard[2, 0] = -100
    target = torch.tensor(rng.random((rows, classes, depth))) if soft else hard
    weight = torch.tensor(rng.random(classes))
    settings = Settings(reduction=reduction, smoothing=0.1, z_loss=0.01, softcap=3.0)
    whole = linear_cross_entropy(
        x, w, target, linear_bias=b, weight=weight, reduction=reduction, label_smoothing=0.1,
        z_loss_coef=0.01, softcap=3.0,
    )  # fmt: skip
    up = torch.tensor(rng.standard_normal(whole.shape))
    wanted = torch.autograd.grad(whole, (x, w, b), up)

    shards = shards_of(x, w, b, target, weight, settings, cuts)
    sums = merge_shards(shard.sums() for shard in shards)
    found = [shard.gradients(sums, up) for shard in shards]
    for shard in shards:
        assert torch.allclose(shard.loss(sums), whole, atol=1e-12)
    d_x = sum(one for one, _, _ in found)
    d_w, d_b = (torch.cat([one[i] for one in found]) for i in (1, 2))
    for got, want in zip((d_x, d_w, d_b), wanted, strict=True):
        assert torch.allclose(got, want, atol=1e-12)


def test_targets_in_one_shard_only_and_all_ignored():
    x, w = torch.randn(4, 3), torch.randn(6, 1, 3)
    for target in (torch.tensor([[0], [1], [0], [1]]), torch.full((4, 1), -100)):
        shards = shards_of(x, w, None, target, None, Settings(), [(0, 3), (3, 6)])
        sums = merge_shards(shard.sums() for shard in shards)
        whole = linear_cross_entropy(x, w, target)
        for shard in shards:
            assert torch.allclose(shard.loss(sums), whole, equal_nan=True)
            grads = shard.gradients(sums, torch.tensor(1.0))
            assert grads[2] is None and all(torch.isfinite(g).all() for g in grads[:2])


def test_classes_outside_are_refused():
    inputs = torch.zeros(2, 3), torch.zeros(4, 1, 3), None, torch.zeros(2, 1).long(), None
    with pytest.raises(ValueError, match="4 classes from 3 on are not a part of 6"):
        VocabularyShard(*inputs, Settings(), 3, 6)
