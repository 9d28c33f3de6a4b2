"""Arguments that were taken and had no effect: they have one now, or are refused."""

import pytest

import rushlight as torch


def test_gather_gives_a_sparse_gradient_when_asked():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    index = torch.tensor([[0, 2], [1, 1]])
    torch.gather(x, 1, index, sparse_grad=True).sum().backward()
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [[1, 0, 1], [0, 2, 0]]
    y = torch.arange(3.0).requires_grad_()
    y.gather(-1, torch.tensor([2]), sparse_grad=True).backward(torch.ones(1))
    assert y.grad.to_dense().tolist() == [0, 0, 1]


def test_segment_reduce_refuses_what_it_cannot():
    data = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="indices based reduction is not supported yet"):
        torch.segment_reduce(data, "sum", indices=torch.tensor([0, 0, 1, 1, 1, 1]))
    with pytest.raises(RuntimeError, match="Either lengths or offsets must be defined"):
        torch.segment_reduce(data, "sum")


@pytest.mark.parametrize("stride", [(1, 2), (6, 2), (0, 1), (3, 1)])
def test_empty_strided_has_the_strides(stride):
    x = torch.empty_strided((2, 3), stride, requires_grad=True)
    assert x.stride() == stride and x.requires_grad and x.is_leaf
    assert x.is_contiguous() == (stride == (3, 1))
    assert torch.empty_strided((0, 3), (7, 1)).shape == (0, 3)


def test_empty_strided_can_be_written():
    x = torch.empty_strided((2, 3), (1, 2))
    x.copy_(torch.arange(6.0).reshape(2, 3))
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(RuntimeError, match="must match dimensionality of strides"):
        torch.empty_strided((2, 3), (1,))


def test_isin_with_unique_elements():
    a, b = torch.tensor([1, 2, 3]), torch.tensor([2, 3])
    assert torch.isin(a, b, assume_unique=True).tolist() == [False, True, True]


@pytest.mark.parametrize("name", ["float32", "torch.float32", "FloatTensor", "torch.x.FloatTensor"])
def test_type_takes_pytorchs_names_only(name):
    x = torch.ones(1)
    with pytest.raises(ValueError, match=f"invalid type: '{name}'"):
        x.type(name)
    assert x.type("torch.HalfTensor").dtype == torch.float16
    assert x.type("torch.ComplexFloatTensor").dtype == torch.complex64


@pytest.mark.parametrize("dtype", ["bfloat16", 3])
def test_autocast_takes_dtypes_only(dtype):
    with pytest.raises(TypeError, match="must be torch.dtype, not"):
        torch.autocast("cpu", dtype=dtype)
