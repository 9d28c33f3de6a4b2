"""Strided convolutions backwards, transposed ones forwards: every phase gets its own taps."""

import itertools

import numpy as np
import pytest

import rushlight as torch

SETTINGS = [
    (k, s, p, extra, d, groups)
    for k, s, p, d, groups in itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1, 4), (1, 2), (1, 2))
    for extra in (0, s - 1)
][::7]  # of 576, so that every pair of values occurs


def spread(x, weight, stride, padding, extra, dilation, groups):
    """What a transposed 1-d convolution means, tap by tap, in float64."""
    batch, channels, count = x.shape
    _, outs, kernel = weight.shape
    whole = (count - 1) * stride + dilation * (kernel - 1) + extra + 1
    total = np.zeros((batch, outs * groups, whole))
    for i, c, t in itertools.product(range(count), range(channels), range(kernel)):
        first = c // (channels // groups) * outs
        value = x[:, c, i, None] * weight[c, :, t]
        total[:, first : first + outs, i * stride + t * dilation] += value
    return total[:, :, padding : whole - padding]


@pytest.mark.parametrize("kernel,stride,padding,extra,dilation,groups", SETTINGS)
def test_transposed_in_one_dim(kernel, stride, padding, extra, dilation, groups):
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 4, 6)), rng.standard_normal((4, 3, kernel))
    expected = spread(x, weight, stride, padding, extra, dilation, groups)
    if expected.shape[2] < 1:
        pytest.skip("nothing is left")
    given = (stride, padding, extra, groups, dilation)
    layer = torch.nn.functional.conv_transpose1d
    found = layer(torch.tensor(x), torch.tensor(weight), None, *given)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("kernel,stride,padding,extra,dilation,groups", SETTINGS)
def test_input_gradient_is_the_adjoint(kernel, stride, padding, extra, dilation, groups):
    """sum(conv(x) * g) = sum(x * gradient), for every input, those that no window reaches too."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 11 + extra, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 4 // groups, kernel, dtype=torch.float64)
    y = torch.nn.functional.conv1d(x, weight, None, stride, padding, dilation, groups)
    g = torch.randn(y.shape, dtype=torch.float64)
    (grad,) = torch.autograd.grad(y, x, g)
    other = torch.randn(x.shape, dtype=torch.float64)
    moved = torch.nn.functional.conv1d(other, weight, None, stride, padding, dilation, groups)
    assert (moved * g).sum().item() == pytest.approx((other * grad).sum().item(), abs=1e-9)


@pytest.mark.parametrize("stride", [(2, 3), (1, 2), (3, 1)])
def test_strides_of_two_dims_and_new_sizes(stride):
    """The gradient of the input is that of a dense matrix, for sizes seen once and again."""
    torch.manual_seed(0)
    net = torch.nn.Conv2d(2, 3, (4, 3), stride, (1, 2), bias=False).double()
    for height, width in ((7, 8), (9, 8), (10, 11), (12, 7)):
        x = torch.randn(1, 2, height, width, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(net, (x,))
    assert torch.autograd.gradgradcheck(net, (x,))


def test_a_transposed_layer_undoes_what_patches_do():
    """Patches of 4 x 4 without overlap: their products with an orthogonal matrix, and back."""
    weight = torch.linalg.qr(torch.randn(48, 48, dtype=torch.float64))[0].reshape(48, 3, 4, 4)
    for size in (8, 12, 16):
        image = torch.randn(2, 3, size, size, dtype=torch.float64)
        patches = torch.nn.functional.conv2d(image, weight, stride=4)
        again = torch.nn.functional.conv_transpose2d(patches, weight, stride=4)
        assert torch.allclose(again, image, atol=1e-10)
