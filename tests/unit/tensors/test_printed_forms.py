"""How numbers and named results print: the texts are PyTorch's.

Run on PyTorch too: python -m pytest -p tests.on_torch tests/unit/tensors/test_printed_forms.py
"""

import pytest

import rushlight as torch


@pytest.mark.parametrize(
    ("values", "sci_mode", "text"),
    [
        ([1.234567, 1e-5], False, "tensor([1.23, 0.00])"),
        ([1.234567, 1e-5], None, "tensor([1.23e+00, 1.00e-05])"),
        ([1.5, 20000.0], False, "tensor([    1.50, 20000.00])"),
        ([1.0, 2.0], True, "tensor([1.00e+00, 2.00e+00])"),
        ([1.5, 2.0], True, "tensor([1.50e+00, 2.00e+00])"),
    ],
)
def test_the_width_follows_the_wanted_form(values, sci_mode, text):
    try:
        torch.set_printoptions(precision=2, sci_mode=sci_mode)
        assert repr(torch.tensor(values)) == text
    finally:
        torch.set_printoptions(profile="default")


@pytest.mark.parametrize("name", ("slogdet", "qr"))
def test_old_and_new_names_of_results(name):
    x = torch.eye(2)
    assert type(getattr(torch, name)(x)).__name__ == name
    assert type(getattr(x, name)()).__name__ == name
    assert type(getattr(torch.linalg, name)(x)).__name__ == f"linalg_{name}"
