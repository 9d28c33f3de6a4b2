"""t_, transpose_, squeeze_, unsqueeze_, as_strided_: the tensor itself becomes the view."""

import pytest

import rushlight as torch


def test_they_give_the_tensor_and_share_its_memory():
    x = torch.arange(6.0).reshape(2, 3).clone()
    row = x[0]
    assert x.t_() is x and x.shape == (3, 2) and x.stride() == (1, 3)
    x[0, 1] = 30.0
    assert row.tolist() == [0.0, 1.0, 2.0]
    row[1] = -1.0
    assert x.tolist() == [[0.0, 30.0], [-1.0, 4.0], [2.0, 5.0]]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("transpose_", (0, 2)), ("swapaxes_", (1, 2)), ("unsqueeze_", (1,)), ("squeeze_", (1,)),
        ("squeeze_", ()), ("as_strided_", ((2, 2), (1, 2), 1)),
    ],
)  # fmt: skip
def test_they_show_what_the_function_shows(name, args):
    x = torch.arange(12.0).reshape(2, 1, 6)
    want = getattr(x, name[:-1])(*args)
    y = x.clone()
    before = y._version
    getattr(y, name)(*args)
    assert y.tolist() == want.tolist() and y.stride() == want.stride()
    assert y._version == before + 1


def test_gradients_pass_through_them():
    a = torch.ones(2, 3, requires_grad=True)
    b = a * 2
    b.transpose_(0, 1)
    b[0] = 5.0
    (b * torch.arange(6.0).reshape(3, 2)).sum().backward()
    assert a.grad.tolist() == [[0.0, 4.0, 8.0], [0.0, 6.0, 10.0]]


def test_what_is_refused():
    leaf = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.t_()
    x = leaf * 1
    view = x[0]
    x.t_()
    with pytest.raises(NotImplementedError, match="take the view afterwards"):
        view.mul_(2)


@pytest.mark.parametrize("take", [
    lambda x: torch.zeros(3, 2).copy_(x), lambda x: x.clone(), lambda x: x.contiguous().clone(),
    lambda x: torch.nn.Parameter(torch.zeros(3, 2)).data.copy_(x),
])  # fmt: skip
@pytest.mark.parametrize("view", [
    lambda x: x.reshape(3, 2), lambda x: x.reshape(2, 3).T, lambda x: x.view(3, 2)[:, :],
])  # fmt: skip
def test_a_view_that_another_tensor_held_keeps_its_values(take, view):
    """The other one's memory is free when it goes: the view must not read it any more."""
    x = view(torch.arange(6.0))
    wanted = x.numpy().copy()
    x = view(torch.arange(6.0))
    other = take(x)
    assert other.tolist() == wanted.tolist()
    del other
    assert (x + x + x).tolist() == (3 * wanted).tolist()
    assert (3 * x).tolist() == (3 * wanted).tolist() and x.tolist() == wanted.tolist()


def test_a_tensor_in_channels_last_shares_nothing_with_its_source():
    """PyTorch copies for another order in memory; ours stays in rows, and is a copy as well."""
    x = torch.zeros(2, 3, 4, 5)
    y = x.to(memory_format=torch.channels_last).add_(1)
    assert x.sum() == 0 and y.sum() == 120
    assert x.to(memory_format=torch.preserve_format) is x
    turned = x.permute(0, 3, 1, 2)
    assert turned.to(memory_format=torch.channels_last) is turned
