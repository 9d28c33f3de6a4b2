"""An index that is found wrong while computing: one error, and nothing else suffers."""

import numpy as np
import pytest

import rushlight as torch

TABLE = torch.tensor([[0, 0], [1, 1], [2, 3], [4, 5], [6, 7.0]])


def wrong() -> torch.Tensor:
    """Rows of a table, one of which does not exist; nobody knows before it is computed."""
    return TABLE[torch.tensor([1, 2]) * 4]


def test_the_error_comes_back_at_each_look_and_names_op_line_value_and_size() -> None:
    rows = wrong()
    for _ in range(2):
        with pytest.raises(IndexError, match="gather_nd.*test_wrong_index.py:13.*index 8 .*size 5"):
            rows.tolist()
    with pytest.raises(IndexError, match="index 8"):
        (rows.sum() + 1).item()


def test_other_values_are_computed_all_the_same() -> None:
    rows = wrong()
    other = torch.ones(3) + 1
    assert other.tolist() == [2, 2, 2]
    with pytest.raises(IndexError):
        rows.tolist()
    assert (other * 2).tolist() == [4, 4, 4]


def test_the_line_is_that_of_this_call_though_the_program_is_known() -> None:
    table, index = TABLE, torch.tensor([1, 2])
    assert table[index * 2].sum().item() == 18
    with pytest.raises(IndexError, match=r"test_wrong_index.py:38"):
        table[index * 4].sum().item()


def test_memory_updated_in_the_same_program_is_updated_once() -> None:
    w = torch.zeros(50_000)
    w += 1
    assert w.sum().item() == 50_000
    w.add_(1)
    rows = wrong()
    with pytest.raises(IndexError):
        rows.sum().item()
    assert w.sum().item() == 100_000


def test_a_training_step_fails_once_and_the_parameters_stay() -> None:
    model = torch.nn.Embedding(5, 3)
    optimizer = torch.optim.Adam(model.parameters())
    before = model.weight.tolist()
    with pytest.raises(IndexError):
        model(torch.tensor([1, 2]) * 4).sum().backward()
    optimizer.zero_grad()
    assert model.weight.tolist() == before
    model(torch.tensor([1, 2])).sum().backward()
    optimizer.step()
    assert model.weight.tolist() != before


def test_a_table_of_equal_numbers_is_checked_too() -> None:
    for table in (torch.ones(5, 2), torch.full((5,), 2.5), torch.zeros(5, dtype=torch.bfloat16)):
        with pytest.raises(IndexError, match="index 8"):
            table[torch.tensor([1, 2]) * 4].tolist()


@pytest.mark.parametrize("rows", [0, 2])
def test_no_index_is_never_wrong(rows: int) -> None:
    """The check of an index that is the same for all elements must not run where there is none."""
    x, none = torch.from_numpy(np.ones((rows, 3), np.float32)), torch.from_numpy(np.zeros(0, int))
    assert x[none].tolist() == [] and torch.index_select(x, 0, none).shape == (0, 3)
    assert torch.take(x, none).tolist() == []
    assert torch.gather(x, 0, none.reshape(0, 3)).shape == (0, 3)
