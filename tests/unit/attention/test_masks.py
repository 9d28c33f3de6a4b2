"""The library of masks: each is what its picture shows."""

import re

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention import masks, score_mods
from rushlight.nn.attention.flex_attention import create_mask, flex_attention

TREE = torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]).bool()
AS_DRAWN = {
    "causal": masks.causal,
    "sliding_window": masks.sliding_window(2),
    "prefix_lm": masks.prefix_lm(2),
    "document": masks.document(torch.tensor([0, 0, 1, 1])),
    "dilated": masks.dilated(2),
    "block_diagonal": masks.block_diagonal(2),
    "tree": masks.tree(TREE),
}


@pytest.mark.parametrize("name", AS_DRAWN)
def test_mask_is_its_picture(name):
    module = __import__(f"rushlight.attention.masks.{name}", fromlist=["x"])
    drawn = re.findall(r"^    ([1.]) ([1.]) ([1.]) ([1.])", module.__doc__, re.M)
    want = np.array([[cell == "1" for cell in row] for row in drawn])
    assert want.shape == (4, 4)
    assert (create_mask(AS_DRAWN[name], None, None, 4, 4).numpy()[0, 0] == want).all()


def test_neighborhoods_have_equal_size_everywhere():
    mask = create_mask(masks.natten_2d(5, 6, 3), None, None, 30, 30).numpy()[0, 0]
    assert (mask.sum(1) == 9).all()
    middle = mask[2 * 6 + 3].reshape(5, 6)
    assert middle[1:4, 2:5].all()
    assert mask[0].reshape(5, 6)[:3, :3].all()


def test_every_mask_is_in_a_test():
    assert set(masks.__all__) == {*AS_DRAWN, "natten_2d"}


def test_score_mods():
    q = torch.randn(1, 2, 6, 4, dtype=torch.float64)
    scores = q @ q.transpose(-2, -1) / 2
    distance = torch.arange(6) - torch.arange(6).view(6, 1)
    slopes = score_mods.alibi_slopes(2).double()
    assert slopes.tolist() == [0.0625, 0.00390625]
    table = torch.randn(2, 11, dtype=torch.float64)
    rows = torch.arange(2).view(2, 1, 1)
    wanted = {
        score_mods.alibi(slopes): scores + slopes.view(2, 1, 1) * distance,
        score_mods.softcap(1.5): 1.5 * torch.tanh(scores / 1.5),
        score_mods.relative_bias(table, 6): scores + table[rows, 5 - distance],
    }
    for mod, changed in wanted.items():
        assert torch.allclose(flex_attention(q, q, q, mod), changed.softmax(-1) @ q)
