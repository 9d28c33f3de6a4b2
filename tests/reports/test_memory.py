"""Writes into memory that several elements share; reads and writes in the order of the program."""

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn

ONE, TWO = torch.tensor([1.0]), torch.tensor([0, 1])
INTO_SHARED = {
    "sub_": lambda t: t.sub_(1),
    "div_": lambda t: t.div_(2),
    "neg_": lambda t: t.neg_(),
    "exp_": lambda t: t.exp_(),
    "clamp_": lambda t: t.clamp_(0, 1),
    "lerp_": lambda t: t.lerp_(t, 0.5),
    "addcmul_": lambda t: t.addcmul_(t, t),
    "masked_fill_": lambda t: t.masked_fill_(t == 0, 2.0),
    "scatter_": lambda t: t.scatter_(0, TWO, 1.0),
    "index_add_": lambda t: t.index_add_(0, TWO, torch.ones(2)),
    "index_fill_": lambda t: t.index_fill_(0, TWO, 1.0),
    "add out=": lambda t: torch.add(torch.ones(3), 1, out=t),
    "sum out=": lambda t: torch.sum(torch.ones(3, 2), 1, out=t),
}


@pytest.mark.parametrize("name", INTO_SHARED)
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(1).expand(3),
        lambda: torch.zeros(3).as_strided((3,), (0,)),
        lambda: torch.zeros(1).broadcast_to(3),
    ],
)
def test_writes_into_shared_elements_are_refused(name, make):
    shared = make()
    with pytest.raises(RuntimeError):
        INTO_SHARED[name](shared)
        shared.tolist()
    assert shared.tolist() == [0, 0, 0]


SHIFTS = {
    "add_": lambda x: x[1:].add_(x[:-1]),
    "mul_": lambda x: x[:-1].mul_(x[1:]),
    "flip": lambda x: x.copy_(x.flip(0)),
    "assign": lambda x: x.__setitem__(slice(2, None), x[:-2]),
    "maximum": lambda x: torch.maximum(x[1:], x[:-1], out=x[1:]),
}
EXPECTED = {
    "add_": [0, 1, 3, 5, 7, 9],
    "mul_": [0, 2, 6, 12, 20, 5],
    "flip": [5, 4, 3, 2, 1, 0],
    "assign": [0, 1, 0, 1, 2, 3],
    "maximum": [0, 1, 2, 3, 4, 5],
}


@pytest.mark.parametrize("name", SHIFTS)
def test_source_and_destination_overlap(name):
    x = torch.arange(6.0)
    try:
        SHIFTS[name](x)
    except RuntimeError:
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    else:
        assert x.tolist() == EXPECTED[name]


def test_running_statistics_are_what_the_line_saw():
    norm = nn.BatchNorm1d(1, momentum=1.0)
    seen = []
    for value in (1.0, 3.0, 7.0):
        norm(torch.full((4, 1), value))
        seen.append(norm.running_mean * 1)
    assert [s.item() for s in seen] == [1, 3, 7] and norm.num_batches_tracked.item() == 3


def test_momentum_read_before_and_after_a_step():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    kept = []
    for _ in range(3):
        weight.grad = torch.ones(1)
        optimizer.step()
        kept.append((weight * 1, optimizer.state[weight]["momentum_buffer"] * 1))
    assert [w.item() for w, _ in kept] == [0, -1.5, -3.25]
    assert [m.item() for _, m in kept] == [1, 1.5, 1.75]


def test_random_draws_keep_their_order_when_read_backwards():
    torch.manual_seed(0)
    first = [torch.rand(3).tolist() for _ in range(3)]
    torch.manual_seed(0)
    draws = [torch.rand(3) for _ in range(3)]
    assert [d.tolist() for d in reversed(draws)] == first[::-1]


def test_tuple_assignment_of_rows():
    x = torch.arange(6.0).reshape(3, 2)
    x[0], x[2] = x[2].clone(), x[0].clone()
    assert x.tolist() == [[4, 5], [2, 3], [0, 1]]


def test_a_masked_write_uses_the_mask_of_its_time():
    x = torch.arange(5.0)
    mask = x > 2
    x[mask] = 0
    later = x.clone()
    x[~mask] = 9
    assert later.tolist() == [0, 1, 2, 0, 0] and x.tolist() == [9, 9, 9, 0, 0]


def test_detach_and_data_share_memory_a_clone_does_not():
    x = torch.zeros(2, requires_grad=True)
    shared, data, copy = x.detach(), x.data, x.detach().clone()
    with torch.no_grad():
        x += 1
    assert shared.tolist() == data.tolist() == [1, 1] and copy.tolist() == [0, 0]


def test_numpy_sees_later_writes_and_the_tensor_sees_numpys():
    x = torch.zeros(3)
    array = x.numpy()
    x[1] = 5
    array[2] = 7
    taken = x * 1
    array[0] = -1
    assert array.tolist() == x.tolist() == [-1, 5, 7] and taken.tolist() == [0, 5, 7]
    np.testing.assert_array_equal(array, x.numpy())
