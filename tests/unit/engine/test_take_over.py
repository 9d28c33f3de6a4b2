"""A kernel that updates in place starts from what the input held, whoever reads its result."""

import rushlight as torch


def test_scatter_into_a_value_that_is_only_passed_on():
    for _ in range(3):
        x = torch.zeros(4, 3)
        x.tolist()
        x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 3))
        x += 1
        assert x.tolist() == [[1.0] * 3, [3.0] * 3, [1.0] * 3, [1.0] * 3]
