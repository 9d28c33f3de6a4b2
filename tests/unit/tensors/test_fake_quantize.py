"""fake_quantize_*: values of PyTorch 2.13, and gradients inside and outside the range."""

import pytest

import rushlight as torch


def test_values_and_gradients_of_a_tensor():
    x = torch.tensor([-1.0, -0.34, 0.04, 0.05, 0.25, 0.35, 0.77, 5.0], requires_grad=True)
    found = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 10)
    wanted = [-0.3, -0.3, 0.0, 0.0, 0.2, 0.4, 0.7, 0.7]
    assert found.tolist() == pytest.approx(wanted)
    (found * torch.arange(8)).sum().backward()
    assert x.grad.tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    # PyTorch 2.13 gives the values above, and this gradient for the scale as a tensor too.
    scale, zero = torch.tensor(0.1), torch.tensor(3, dtype=torch.int32)
    assert torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 10).equal(found)


def test_a_scale_for_each_channel():
    x = torch.tensor([[0.26, 9.0], [0.26, -9.0]], requires_grad=True)
    scale, zero = torch.tensor([0.1, 0.5]), torch.tensor([0, 1], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7)
    assert found.flatten().tolist() == pytest.approx([0.3, 0.7, 0.5, -4.5])
    found.sum().backward()
    assert x.grad.tolist() == [[1, 0], [1, 0]]
    other = torch.fake_quantize_per_channel_affine(x.T, scale, zero, -1, -8, 7)
    assert other.T.equal(found)


@pytest.mark.parametrize("call, words", [
    (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 1), "less than or equal"),
    (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 9, 0, 5), "zero_point"),
    (lambda x: torch.fake_quantize_per_channel_affine(x, x[0], x[0, :1], 0, 0, 5), "same dim"),
    (lambda x: torch.fake_quantize_per_channel_affine(x, x[0], x[0], 5, 0, 5), "not consistent"),
])  # fmt: skip
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(torch.ones(3, 3))
