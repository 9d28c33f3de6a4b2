"""Views, in-place changes and dtype rules: what holds on PyTorch holds here.

Run on PyTorch too: python -m pytest -p tests.on_torch tests/unit/nn/test_views_and_promotion.py
"""

import pytest

import rushlight as torch

F = torch.nn.functional
PARTS = {
    "Split": lambda x: x.split(2),
    "SplitWithSizes": lambda x: x.split([2, 4]),
    "chunk": lambda x: x.chunk(3),
    "Unbind": lambda x: x.unbind(0),
    "iteration": lambda x: list(x),
    "part of a part": lambda x: [part[0:1] for part in x.split(2)],
}


def numbers(count=6):
    return torch.arange(float(count))


@pytest.mark.parametrize("name", PARTS)
def test_one_of_several_views_is_not_changed_under_autograd(name):
    x = numbers().requires_grad_() * 1
    parts = PARTS[name](x)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        parts[0].mul_(2)
    with torch.no_grad():
        parts[0].mul_(2)
    leaf = numbers().requires_grad_()
    with pytest.raises(RuntimeError, match="Output 0 of"):
        PARTS[name](leaf)[0].add_(1)


@pytest.mark.parametrize("name", PARTS)
def test_one_of_several_views_is_changed_where_nothing_needs_a_gradient(name):
    x = numbers()
    PARTS[name](x)[0].add_(10)
    assert x[0] == 10 and x[5] == 5


@pytest.mark.parametrize("name", ["Split", "Unbind", "chunk"])
def test_one_of_several_views_is_lost_when_its_base_changes(name):
    x = numbers().requires_grad_() * 1
    part = PARTS[name](x)[0]
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been"):
        part.sum()


def test_tensor_split_gives_ordinary_views():
    x = numbers().requires_grad_() * 1
    x.tensor_split(3)[0].mul_(2)
    assert x[1] == 2


def test_retained_gradient_is_that_of_the_value_after_a_change():
    w = numbers(4).requires_grad_()
    y = w * 2
    y.retain_grad()
    y[0:2].mul_(3)
    y.mul_(5)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1, 1, 1] and w.grad.tolist() == [30, 30, 10, 10]


def test_view_that_became_a_leaf_is_not_changed_in_place():
    part = numbers()[0:2].requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        part.add_(1)


def test_data_is_a_tensor_that_may_need_gradients():
    w = numbers(3).requires_grad_()
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        w.data = 3
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        w.data = torch.arange(3)
    w.data = numbers(5)
    assert w.shape == (5,) and w.requires_grad and w.is_leaf


def test_versions_count_set_and_resize():
    x = numbers()
    x.set_(numbers(4))
    x.resize_(2)
    assert x._version == 2 and x.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        x.set_(torch.arange(3))


def test_gradients_that_are_assigned_fit():
    x = numbers(3).requires_grad_()
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        x.grad = numbers(4)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        x.grad = numbers(3).double()


@pytest.mark.parametrize("change", [
    lambda x, at: x.index_put_((at,), torch.ones(2)),
    lambda x, at: x.index_add_(0, at, torch.ones(2)),
    lambda x, at: x.index_copy_(0, at, torch.ones(2)),
    lambda x, at: x.scatter_add_(0, at, torch.ones(2)),
])  # fmt: skip
def test_tensor_stays_usable_after_an_index_error(change):
    x = numbers(3)
    with pytest.raises((IndexError, RuntimeError)):
        change(x, torch.tensor([7, 9]))
    assert x.tolist() == [0, 1, 2] and (x + 1).tolist() == [1, 2, 3] and x._version == 0


# What is put at indices has the dtype of the tensor.
AT = torch.tensor([0, 1])
WIDE, MASK = torch.ones(2, dtype=torch.float64), torch.tensor([True, True, False])
REFUSED = {
    "index_put": (lambda x: x.index_put((AT,), WIDE), "source and destination dtypes match"),
    "index_put_ by a mask": (lambda x: x.index_put_((MASK,), WIDE), "dtypes match"),
    "setitem": (lambda x: x.__setitem__(AT, WIDE), "source and destination dtypes match"),
    "setitem by a mask": (lambda x: x.__setitem__(MASK, WIDE), "dtypes match"),
    "setitem of a 0-dim tensor": (lambda x: x.__setitem__(AT, torch.tensor(2)), "dtypes match"),
    "index_add": (lambda x: x.index_add(0, AT, WIDE), "must have the same scalar type"),
    "index_copy": (lambda x: x.index_copy(0, AT, WIDE), "expected to have the same dtype"),
    "index_copy by int32": (lambda x: x.index_copy(0, AT.int(), WIDE.float()), "a long tensor"),
    "put": (lambda x: x.put(AT, WIDE), "expected to have the same dtype"),
    "scatter": (lambda x: x.scatter(0, AT, WIDE), "Expected self.dtype to be equal"),
    "scatter_add": (lambda x: x.scatter_add(0, AT, WIDE), "Expected self.dtype to be equal"),
    "masked_scatter": (lambda x: x.masked_scatter(MASK, WIDE), "to have same dtypes"),
    "masked_scatter of too few": (
        lambda x: x.masked_scatter_(MASK, torch.ones(1)), "Number of elements of source"),
    "take": (lambda x: x.take(AT.int()), "Expected a long tensor"),
    "lerp": (lambda x: torch.lerp(x, x.double(), 0.5), "expected dtype float for `end`"),
    "heaviside": (lambda x: torch.heaviside(x, x.double()), "tensors with different dtypes"),
    "prelu": (lambda x: F.prelu(x, WIDE[:1]), "Type promoting not supported"),
    "cdist": (lambda x: torch.cdist(x[None], x[None].double()), "expected scalar type"),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x / 2, x.double()), "Found dtype"),
    "layer_norm": (lambda x: F.layer_norm(x, (3,), x.double()), "mixed dtype"),
    "kl_div": (lambda x: F.kl_div(x, x.long()), "Integral inputs not supported"),
    "addmm": (lambda x: torch.addmm(x.double(), x[None], torch.ones(3, 3)), "same dtype"),
    "addcdiv": (lambda x: torch.addcdiv(x, AT[0], AT[1]), "Integer division with addcdiv"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_operands_of_other_dtypes_are_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(RuntimeError, match=text):
        call(numbers(3))


BYTES, SMALL = torch.zeros(2, dtype=torch.uint8), torch.zeros(2, dtype=torch.int8)
TOO_LARGE = [
    lambda: SMALL.clamp(max=300), lambda: SMALL.clamp_min(-300), lambda: SMALL**300,
    lambda: SMALL.masked_fill(SMALL == 0, 300), lambda: SMALL.index_fill(0, AT, 300),
    lambda: torch.where(SMALL == 0, SMALL, 300), lambda: SMALL.clone().fill_(300.5),
    lambda: SMALL.clone().fill_(float("nan")), lambda: torch.full((1,), 1e60),
    lambda: torch.add(SMALL, SMALL, alpha=300),
    lambda: torch.addcmul(SMALL, SMALL, SMALL, value=300),
    lambda: F.threshold(SMALL, 0, 300), lambda: F.hardtanh(SMALL, -300, 300),
    lambda: BYTES.clone().fill_(-256), lambda: torch.zeros(1).masked_fill(MASK[:1], 1e60),
    lambda: torch.zeros(1).fill_(1j), lambda: torch.zeros(3).scatter(0, AT, 1j),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(TOO_LARGE)))
def test_numbers_that_do_not_fit_are_refused(place):
    with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
        TOO_LARGE[place]()


def test_negative_numbers_wrap_around_in_unsigned_dtypes():
    assert BYTES.clone().fill_(-1).tolist() == [255, 255]
    assert torch.tensor([-1], dtype=torch.uint8).item() == 255
    assert torch.full((1,), -255, dtype=torch.uint8).item() == 1


def test_alpha_is_of_the_dtype_of_the_result():
    assert torch.add(SMALL, torch.tensor(1), alpha=2).dtype is torch.int8
    assert torch.add(MASK, MASK, alpha=2).dtype is torch.bool
    for alpha, x in ((1.5, SMALL), (True, SMALL), (1j, torch.zeros(2))):
        with pytest.raises(RuntimeError, match="alpha"):
            torch.sub(x, x, alpha=alpha)


def test_wide_unsigned_integers_meet_floats_only():
    wide = torch.zeros(2, dtype=torch.uint16)
    assert (wide.float() + wide.to(torch.float32)).dtype is torch.float32
    assert torch.promote_types(torch.uint16, torch.float16) is torch.float16
    for other in (torch.bool, torch.int64, torch.uint8, torch.uint32, torch.complex64):
        with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64"):
            torch.promote_types(torch.uint16, other)


def test_types_of_python_are_dtypes():
    assert torch.promote_types(float, torch.int32) is torch.float64
    assert torch.can_cast(int, float) and not torch.can_cast(float, torch.int32)
    assert torch.finfo(float).max == torch.finfo(torch.float64).max
    assert torch.iinfo(int).max == 2**63 - 1 and torch.finfo(torch.complex64).bits == 32
    assert F.softmax(numbers(3), 0, dtype=float).dtype is torch.float64
    assert numbers(4).view(int).dtype is torch.int64
    for call in (lambda: torch.finfo(int), lambda: torch.iinfo(float), lambda: torch.iinfo(bool),
                 lambda: torch.finfo("float32"), lambda: torch.zeros(2, dtype=str)):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_boundaries_meet_a_number_in_their_common_dtype():
    whole = torch.tensor([1, 2, 3])
    assert torch.searchsorted(whole, 1.5).item() == 1 and torch.bucketize(2.5, whole).item() == 2


def test_a_loss_of_a_0_dim_target_has_the_wider_dtype():
    low = torch.ones(2, dtype=torch.float16)
    assert F.mse_loss(low, torch.tensor(1.0)).dtype is torch.float32
    assert F.huber_loss(low, torch.ones(2)).dtype is torch.float16
    assert F.cross_entropy(torch.ones(2, 2), torch.ones(2, 2).double()).dtype is torch.float64


def test_vander_starts_with_the_highest_power():
    x = torch.tensor([1, 2, 3])
    assert torch.vander(x).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    assert torch.vander(x, 2, increasing=True).tolist() == [[1, 1], [1, 2], [1, 3]]
    assert torch.vander(x, 0).shape == (3, 0)
