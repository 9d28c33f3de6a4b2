"""Class and text of errors, as stored from PyTorch (tools/make_tensor_goldens.py)."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

import rushlight as torch
from tests.tensor_tables import fault

GOLDEN = json.loads((Path(__file__).parents[1] / "unit" / "tensors" / "golden.json").read_text())[
    "errors"
]


@pytest.mark.parametrize("text", GOLDEN)
def test_error_class_and_text(text):
    name, message = GOLDEN[text]
    kind, got = fault(torch, text)
    assert kind is not None and issubclass(kind, getattr(builtins, name))
    assert got.splitlines()[0] == message


def test_failed_in_place_op_leaves_the_tensor_as_it_was():
    x = torch.tensor([1, 2, 3])
    for wrong in (lambda: x.add_(1.5), lambda: x.add_(torch.zeros(2, 3)), lambda: x.div_(2)):
        with pytest.raises(RuntimeError):
            wrong()
    assert x.tolist() == [1, 2, 3] and x._version == 0


def test_unknown_device_and_missing_features_are_named():
    with pytest.raises(RuntimeError, match="device 'xpu' is not available"):
        torch.zeros(1, device="xpu")
    with pytest.raises(NotImplementedError, match="is_grads_batched"):
        x = torch.ones(1, requires_grad=True)
        torch.autograd.grad(x.sum(), x, is_grads_batched=True)
