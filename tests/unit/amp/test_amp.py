"""Autocast casts by PyTorch's lists; GradScaler skips steps that overflow."""

import pytest

import rushlight as torch


def test_autocast_lowers_products_and_raises_losses() -> None:
    layer, x = torch.nn.Linear(4, 3), torch.ones(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        assert y.dtype is torch.bfloat16
        assert (x + 1).dtype is torch.float32
        assert (x.double() @ x.double().T).dtype is torch.float64
        loss = torch.nn.functional.cross_entropy(y, torch.tensor([0, 1]))
        with torch.autocast("cpu", enabled=False):
            assert layer(x).dtype is torch.float32
        assert layer(x).dtype is torch.bfloat16
    assert loss.dtype is torch.float32 and layer(x).dtype is torch.float32
    loss.backward()
    assert layer.weight.grad.dtype is torch.float32


# What a network under autocast gives to its products: one operand lowered before, the other not.
X, W = torch.arange(24.0).reshape(2, 3, 4) / 24, torch.arange(24.0).reshape(2, 3, 4).mT / 10
LOW = X.bfloat16()
F = torch.nn.functional
MIXED = {
    "matmul": lambda: LOW @ W,
    "vector": lambda: LOW[0] @ W[0, :, 0],
    "linear": lambda: F.linear(LOW, W[0].T, torch.ones(3)),
    "linear, low weight": lambda: F.linear(X, W[0].T.bfloat16()),
    "mm": lambda: torch.mm(LOW[0], W[0]),
    "bmm": lambda: torch.bmm(LOW, W),
    "addmm": lambda: torch.addmm(torch.ones(3, 3), LOW[0], W[0]),
    "baddbmm": lambda: torch.baddbmm(torch.ones(2, 3, 3), LOW, W),
    "addbmm": lambda: torch.addbmm(torch.ones(3, 3), LOW, W),
    "einsum": lambda: torch.einsum("bij,bjk->bik", LOW, W),
    "conv": lambda: F.conv1d(LOW, torch.ones(2, 3, 2), torch.ones(2)),
    "conv_transpose": lambda: F.conv_transpose1d(LOW, torch.ones(3, 2, 2), torch.ones(2)),
    "attention": lambda: F.scaled_dot_product_attention(LOW, X, X),
    "mlp": lambda: torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))(X),
    "heads": lambda: torch.nn.MultiheadAttention(4, 2)(X, X, X)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_product_of_a_low_and_a_full_operand_is_low(name) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MIXED[name]().dtype is torch.bfloat16
    if name not in ("mlp", "heads", "conv_transpose"):
        with pytest.raises(RuntimeError, match="dtype|should be the same"):
            MIXED[name]()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [True, False])
def test_norm_of_a_low_input_with_full_parameters_is_low(dtype, training) -> None:
    """As in PyTorch, with autocast or without; the values are those of the wide computation."""
    x = torch.arange(64.0).reshape(2, 4, 8).sin().to(dtype)
    for norm in (
        torch.nn.LayerNorm(8), torch.nn.RMSNorm(8), torch.nn.GroupNorm(2, 4),
        torch.nn.BatchNorm1d(4), torch.nn.InstanceNorm1d(4, affine=True),
    ):  # fmt: skip
        norm.train(training)
        y = norm(x)
        assert y.dtype is dtype, norm
        assert torch.equal(y, norm(x.float()).to(dtype)), norm
        y.sum().backward()
        assert norm.weight.grad.dtype is torch.float32


def test_network_under_autocast_trains() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    x, y = torch.randn(4, 5, 8), torch.randn(4, 5, 8)
    losses = []
    for _ in range(10):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(layer(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad.dtype is torch.float32 for p in layer.parameters())


def test_autocast_is_left_when_an_error_leaves_it() -> None:
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"):
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled("cpu")


def test_a_compiled_function_sees_the_mode_of_its_caller() -> None:
    double = torch.compile(lambda x: x @ x)
    x = torch.ones(2, 2)
    for _ in range(3):
        assert double(x).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert double(x).dtype is torch.bfloat16


def test_autocast_of_a_device_that_is_not_there_warns_and_does_nothing() -> None:
    with pytest.warns(UserWarning, match="not available"):
        context = torch.autocast("cuda")
    with context:
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_that_overflowed_is_skipped(bad: float) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    for factor, scale in ((bad, 4.0), (1.0, 8.0)):
        before = weight.tolist()
        optimizer.zero_grad()
        scaler.scale((weight * torch.tensor([factor, 1.0])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert (weight.tolist() == before) is (factor != 1.0)


def test_misuse_of_the_scaler_is_an_error() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)
