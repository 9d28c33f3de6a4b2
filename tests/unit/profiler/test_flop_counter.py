"""FlopCounterMode against counts by hand (and by PyTorch 2.13)."""

import rushlight as torch
from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula


def test_forward_and_backward_of_a_small_network():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(8 * 36, 5))  # fmt: skip
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(2, 3, 8, 8)).sum().backward()
    assert counter.get_total_flops() == 79488  # PyTorch's
    by_module = {k: sum(v.values()) for k, v in counter.get_flop_counts().items()}
    assert by_module["Sequential.0"] == 62208 and by_module["Sequential.3"] == 17280
    assert "Sequential.3" in counter.get_table(depth=3)


def test_products():
    q = torch.randn(2, 4, 8, 16)
    with FlopCounterMode(display=False) as counter:
        q @ q.mT
        torch.einsum("bhqd,bhkd->bhqk", q, q)
        torch.addmm(torch.zeros(3, 5), torch.ones(3, 4), torch.ones(4, 5))
        torch.relu(q)
    assert counter.get_total_flops() == 2 * (2 * 2 * 4 * 8 * 8 * 16) + 2 * 3 * 4 * 5


def test_own_formulas():
    @register_flop_formula(torch.ops.aten.cosh)
    def count(shape, out_shape=None):
        return shape.numel()

    with FlopCounterMode(display=False) as counter:
        torch.cosh(torch.ones(7))
    assert counter.get_total_flops() == 7


def test_a_result_that_is_given():
    with FlopCounterMode(display=False) as counter:
        torch.mm(torch.ones(4, 5), torch.ones(5, 6), out=torch.empty(4, 6))
    assert counter.get_total_flops() == 2 * 4 * 5 * 6  # PyTorch's


def test_formulas_of_one_counter_are_its_own():
    own = {torch.ops.aten.sinh: lambda shape, out_shape=None: 3 * shape.numel()}
    counts = []
    for mapping in (own, None):
        with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            torch.sinh(torch.ones(7))
        counts.append(counter.get_total_flops())
    assert counts == [21, 0]
