"""Anomaly mode: errors of the backward pass name the line of the forward pass."""

import pytest

import rushlight as torch


def broken(x):
    return (torch.sqrt(x) * 0).sum()  # the line that must be named


@pytest.fixture
def caught():
    with pytest.warns(UserWarning) as warned:
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        with pytest.raises(RuntimeError) as error, torch.autograd.detect_anomaly():
            broken(x).backward()
    return str(error.value), [str(w.message) for w in warned]


def test_nan_names_the_function_and_the_line(caught):
    error, warned = caught
    assert error.startswith("Function 'SqrtBackward0' returned nan values in its 0th output.")
    assert "the line that must be named" in error and "test_anomaly.py" in error
    assert any("Traceback of forward call" in w and "in broken" in w for w in warned)


def test_errors_of_own_functions_name_the_line():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    x = torch.ones(2, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Error detected in BadBackward"),
        pytest.raises(ValueError),
    ):
        with torch.autograd.set_detect_anomaly(True):
            Bad.apply(x).sum().backward()


def test_nan_of_the_forward_pass_is_let_through_without_the_check():
    x = torch.tensor([0.0], requires_grad=True)
    with pytest.warns(UserWarning, match="enabled"), torch.autograd.detect_anomaly(check_nan=False):
        broken(x).backward()
    assert x.grad.isnan().all()


def test_the_mode_ends_with_its_block():
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        pass
    x = torch.tensor([0.0], requires_grad=True)
    out = broken(x)
    assert "traceback_" not in out.grad_fn.metadata
    out.backward()
