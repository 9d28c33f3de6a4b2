"""Class and text of errors, as stored from PyTorch (tools/make_tensor_goldens.py)."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
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


def test_memory_that_others_see_keeps_its_size():
    shared = torch.from_numpy(np.zeros(2, np.float32))
    for grow in (
        lambda: shared.resize_(3),
        lambda: torch.add(torch.ones(3), 1, out=shared),
        lambda: torch.cat([torch.ones(2), torch.ones(2)], out=shared),
    ):
        with pytest.raises(RuntimeError, match="resize storage that is not resizable"):
            grow()
    assert torch.add(torch.ones(1), 1, out=shared).tolist() == [2]
    assert torch.add(torch.ones(3), 1, out=torch.zeros(2)).tolist() == [2, 2, 2]


def test_dtype_of_out_where_it_must_be_that_of_the_result():
    parts = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    for function in (torch.complex, torch.polar):
        with pytest.raises(
            RuntimeError, match="Expected out tensor to have dtype c10::complex<double>"
        ):
            function(*parts, out=torch.empty(2, dtype=torch.complex64))


@pytest.mark.parametrize("value", [1j, torch.tensor(2 + 1j)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_imaginary_parts_are_not_dropped(dtype, value):
    x, mask = torch.ones(2, dtype=dtype), torch.tensor([True, False])
    for fill in (x.masked_fill, x.masked_fill_):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"):
            fill(mask, value)
    assert x.masked_fill(mask, 3 + 0j).tolist() == [3, 1]


@pytest.mark.parametrize("function", [torch.amax, torch.sum, torch.mean, torch.logsumexp])
def test_reductions_of_some_of_too_many_dimensions(function):
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        function(torch.ones(1).reshape((1,) * 65), -1)


@pytest.mark.parametrize(
    "function", [torch.frexp, torch.sort, torch.linalg.qr, lambda x, out: torch.max(x, 0, out=out)]
)
def test_out_of_several_results_has_a_tensor_for_each(function):
    with pytest.raises(TypeError, match="expected tuple of 2 elements but got 1"):
        function(torch.ones(3, 3), out=(torch.empty(0),))
