"""Products with scales and in groups, against products of float32 one by one."""

import pytest

import rushlight as torch

torch.manual_seed(0)
LEFT = torch.randn(16, 32).to(torch.float8_e4m3fn)
RIGHT = torch.randn(32, 8).to(torch.float8_e5m2)
WHOLE = LEFT.float() @ RIGHT.float()


def scale(value):
    return torch.tensor(value)


def test_one_scale_each():
    for dtype in (torch.float32, torch.bfloat16, None):
        found = torch._scaled_mm(LEFT, RIGHT, scale(0.5), scale(4.0), out_dtype=dtype)
        assert found.dtype is (dtype or torch.float8_e4m3fn)
        torch.testing.assert_close(found.float(), (WHOLE * 2).to(found.dtype).float())


def test_scales_of_rows_and_columns_and_a_bias():
    rows, columns, bias = torch.rand(16, 1), torch.rand(1, 8), torch.randn(8)
    found = torch._scaled_mm(LEFT, RIGHT, rows, columns, bias=bias, out_dtype=torch.float32)
    torch.testing.assert_close(found, WHOLE * rows * columns + bias)


def test_the_scale_of_a_float8_result():
    for dtype, factor in ((torch.float8_e4m3fn, 0.25), (torch.float32, 1.0)):
        found = torch._scaled_mm(
            LEFT, RIGHT, scale(1.0), scale(1.0), scale_result=scale(4.0), out_dtype=dtype
        )
        torch.testing.assert_close(found.float(), (WHOLE * factor).to(dtype).float())


@pytest.mark.parametrize("arguments", [
    (LEFT.float(), RIGHT, scale(1.0), scale(1.0)), (LEFT, RIGHT, scale(1), scale(1.0)),
    (LEFT, RIGHT, torch.ones(16, 1), scale(1.0)),
    (LEFT, RIGHT, torch.ones(16, 2), torch.ones(1, 8)),
])  # fmt: skip
def test_other_scalings_are_refused(arguments):
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(*arguments)


ENDS = torch.tensor([3, 3, 7], dtype=torch.int32)
SPANS = [(0, 3), (3, 3), (3, 7)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups(dtype):
    rows, experts = torch.randn(8, 4).to(dtype), torch.randn(3, 4, 5).to(dtype)
    by_rows = torch._grouped_mm(rows, experts, offs=ENDS)
    turned = torch._grouped_mm(experts.transpose(1, 2), rows.T, offs=ENDS)
    assert by_rows.shape == (8, 5) and turned.shape == (5, 8)
    for expert, (start, end) in enumerate(SPANS):
        wanted = rows[start:end] @ experts[expert]
        torch.testing.assert_close(by_rows[start:end], wanted)
        torch.testing.assert_close(turned[:, start:end], wanted.T)
    inner = torch.nn.functional.grouped_mm(rows.T, rows, offs=ENDS)
    for found, (start, end) in zip(inner, SPANS, strict=True):
        torch.testing.assert_close(found, rows[start:end].T @ rows[start:end])
    batches = torch._grouped_mm(experts, experts.transpose(1, 2))
    torch.testing.assert_close(batches, experts @ experts.transpose(1, 2))


def test_gradients_of_groups():
    rows = torch.randn(7, 4, dtype=torch.float32, requires_grad=True)
    experts = torch.randn(3, 4, 5, requires_grad=True)
    torch._grouped_mm(rows, experts, offs=ENDS).sum().backward()
    assert experts.grad[1].abs().sum() == 0
    torch.testing.assert_close(rows.grad[3:], experts[2].sum(1).detach().expand(4, 4))
    torch.testing.assert_close(experts.grad[0], rows[:3].detach().sum(0)[:, None].expand(4, 5))


@pytest.mark.parametrize("options, words", [
    ({}, "Have to provide offsets"), ({"offs": ENDS.long()}, "int32"),
    ({"offs": ENDS[:2]}, "batch sizes"), ({"offs": ENDS, "bias": torch.ones(3, 5)}, "Bias"),
    ({"offs": ENDS, "out_dtype": torch.float16}, "output dtype"),
])  # fmt: skip
def test_wrong_groups_are_refused(options, words):
    with pytest.raises(RuntimeError, match=words):
        torch._grouped_mm(torch.ones(7, 4), torch.ones(3, 4, 5), **options)


def test_without_out_dtype_the_scale_of_the_result_is_not_used():
    options = {"scale_result": scale(4.0)}
    found = torch._scaled_mm(LEFT, RIGHT, scale(1.0), scale(1.0), **options)
    torch.testing.assert_close(found.float(), WHOLE.to(torch.float8_e4m3fn).float())
