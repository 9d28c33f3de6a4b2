"""torch.library: ops of the user, with shapes, gradients and schemas."""

import pytest

import rushlight as torch


@torch.library.custom_op("rushtests::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x.sin() * scale


@scaled_sin.register_fake
def _(x, scale):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


scaled_sin.register_autograd(
    lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_setup
)


def test_call_and_gradient():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    out = scaled_sin(x, 2.0)
    assert torch.allclose(out, x.sin() * 2)
    out.sum().backward()
    assert torch.allclose(x.grad, x.detach().cos() * 2)


def test_it_is_in_torch_ops():
    found = torch.ops.rushtests.scaled_sin(torch.ones(2), 3.0)
    assert torch.allclose(found, torch.ones(2).sin() * 3)
    assert torch.ops.rushtests.scaled_sin.default is not None


def test_the_gradient_is_right():
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: scaled_sin(v, 0.5), (x,))


def test_unknown_ops_are_named():
    with pytest.raises(AttributeError, match="nothing_here"):
        torch.ops.rushtests.nothing_here(torch.ones(1))


def test_an_op_that_changes_its_argument():
    @torch.library.custom_op("rushtests::fill_one", mutates_args=("x",))
    def fill_one(x: torch.Tensor) -> None:
        x.fill_(1.0)

    x = torch.zeros(2)
    fill_one(x)
    assert x.tolist() == [1.0, 1.0]


def test_define_and_impl():
    lib = torch.library.Library("rushtests2", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    assert torch.ops.rushtests2.twice(torch.ones(1)).item() == 2
