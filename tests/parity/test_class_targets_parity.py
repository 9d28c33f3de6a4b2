"""What targets of classes may be, and in which words others are refused, as in PyTorch."""

import pytest

torch_real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402

SHAPES = [  # input, target, dtype of the target
    ((3, 5), (3,), "int64"), ((3, 5), (3,), "uint8"), ((3, 5), (3,), "int32"),
    ((3, 5), (3,), "float32"), ((3, 5), (2,), "int64"), ((3, 5), (), "int64"),
    ((3, 5), (3, 1), "int64"), ((3, 5), (2, 5), "float32"), ((3, 5), (3, 6), "float32"),
    ((3, 5), (3, 5), "float32"), ((3, 5), (3, 5), "int64"), ((5,), (), "int64"),
    ((5,), (1,), "int64"), ((5,), (2,), "int64"), ((5,), (6,), "float32"),
    ((2, 5, 4), (2, 4), "int64"), ((2, 5, 4), (3, 4), "int64"), ((2, 3, 5), (2, 3), "int64"),
    ((2, 5, 4, 6), (2, 4, 6), "int64"), ((2, 5, 4, 6), (2, 4, 5), "int64"),
    ((2, 5, 4, 6), (2, 4), "int64"), ((2, 5, 4, 6), (2, 4, 6), "float32"),
    ((2, 5, 4, 6, 2), (2, 4, 6, 2), "int64"), ((2, 5, 4, 6, 2), (2, 4), "int64"),
    ((), (), "int64"), ((), (), "float32"),
]  # fmt: skip


def told(loss):
    """The shape of a loss, or its error."""
    try:
        return tuple(loss().shape)
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error).__name__, str(error).replace("rushlight.", "torch.")


def all_told(t, shape, target_shape, dtype):
    functional = t.nn.functional
    x, target = t.zeros(shape), t.zeros(target_shape, dtype=getattr(t, dtype))
    layer = t.zeros(shape[-1] if shape else 1, 4)
    hidden = t.zeros((*shape[:-1], 4))
    small = t.zeros(4)
    yield "cross_entropy", told(lambda: functional.cross_entropy(x, target))
    yield "rows", told(lambda: functional.cross_entropy(x, target, reduction="none"))
    yield "half", told(lambda: functional.cross_entropy(x, target, t.zeros(5).half()))
    if len(shape) <= 2:
        yield "weight", told(lambda: functional.cross_entropy(x, target, small))
        yield "linear", told(lambda: functional.linear_cross_entropy(hidden, layer, target))
    if dtype != "float32":
        yield "nll", told(lambda: functional.nll_loss(x, target))


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_class_targets_equal_pytorch(case):
    assert list(all_told(torch, *case)) == list(all_told(torch_real, *case))


def test_a_class_out_of_bounds_comes_after_the_shapes():
    x, target = torch.zeros(2, 3), torch.tensor([7, 0, 0])
    with pytest.raises(ValueError, match="batch_size"):
        torch.nn.functional.cross_entropy(x, target)
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        torch.nn.functional.cross_entropy(x, torch.tensor([7, 0]))
