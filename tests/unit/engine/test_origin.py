"""User lines: kept when asked for, and always where an index may be out of range."""

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.base.errors import IndexOutOfRangeError
from rushlight.engine import origin, watch


def here(frame_line):
    return f"{__file__}:{frame_line}"


def test_lines_are_not_kept_at_debug_0():
    watch.is_watched()
    assert not origin.STATE.on
    assert origin.lines_of((torch.ones(3) + 1)._value()) == ()


def test_lines_are_kept_at_debug_2():
    first = test_lines_are_kept_at_debug_2.__code__.co_firstlineno
    x = torch.ones(3)
    with config.override(debug=2):
        origin.refresh()
        y = x + 1
        z = x + 1
    origin.refresh()
    assert y._value() is z._value() or origin.lines_of(z._value()) == (here(first + 6),)
    assert here(first + 5) in origin.lines_of(y._value())


def test_parts_of_a_call_belong_to_its_line():
    first = test_parts_of_a_call_belong_to_its_line.__code__.co_firstlineno
    with config.override(debug=2):
        origin.refresh()
        x = torch.rand(5, 5)
    origin.refresh()
    node = x._value()
    assert origin.lines_of(node) == (here(first + 4),)
    assert origin.lines_of(node.src[0]) == (here(first + 4),)


def failing(work):
    """The message. The tensors of `work` are gone afterwards: nothing stays pending."""
    try:
        work()
    except IndexOutOfRangeError as error:
        assert isinstance(error, IndexError)
        return str(error)
    return pytest.fail("no IndexError")


def test_embedding_names_op_line_value_and_size():
    table, index = torch.ones(50, 4), torch.tensor([[1, 2], [70, 3]])

    def work():
        torch.nn.functional.embedding(index * 1, table).tolist()

    line = here(work.__code__.co_firstlineno + 1)
    assert failing(work) == (
        f"index out of range in embedding (recorded at {line}): "
        "index 70 is out of bounds for dimension 0 with size 50"
    )


def test_scatter_names_the_value():
    index = torch.tensor([[0, 9]])

    def work():
        torch.zeros(1, 4).scatter(1, index * 1, torch.ones(1, 2)).tolist()

    assert "index 9 is out of bounds for dimension 1 with size 4" in failing(work)


def test_computed_index_is_found():
    def work():
        torch.gather(torch.arange(6.0), 0, torch.tensor([1, 2]) * 4).tolist()

    assert "index 8 is out of bounds for dimension 0 with size 6" in failing(work)


def test_failed_program_can_be_repeated():
    table = torch.ones(5, 2)
    failing(lambda: torch.nn.functional.embedding(torch.tensor([5]) * 1, table).tolist())
    assert torch.nn.functional.embedding(torch.tensor([4]), table).tolist() == [[1.0, 1.0]]
