"""A new elementwise op is one record: it compiles, fuses and differentiates with nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import ops
from rushlight.ir import opdef
from rushlight.ir.opdef import Arg
from rushlight.ops.rules import elementwise_shape, operand_dtype


@pytest.fixture
def softcube():
    """x^3 / (1 + x^2), declared here and nowhere else."""
    record = opdef.op(
        name="softcube_of_a_test",
        doc="A cube near zero, a line far away.",
        inputs=(Arg("x"),),
        shape=elementwise_shape,
        dtype=operand_dtype,
        scalar=lambda x: x * x * x / (x * x + 1.0),
        reference=lambda x: x**3 / (1 + x**2),
        grad=lambda g, x: (g * (x * x * (x * x + 3.0) / ((x * x + 1.0) * (x * x + 1.0))),),
    )
    yield record
    opdef.all_ops().pop(record.name)


def test_it_compiles_and_fuses_with_its_neighbors(softcube):
    values = np.linspace(-3, 3, 1001, dtype=np.float32)
    x = torch.tensor(values.tolist())

    def call():
        return torch.exp(-softcube(x * 2.0)) + 1.0

    found = call().numpy()
    assert len(torch.explain(call).kernels) == 1
    wide = 2.0 * values.astype(np.float64)
    np.testing.assert_allclose(found, np.exp(-(wide**3) / (1 + wide**2)) + 1, rtol=1e-5)


def test_it_differentiates_twice(softcube):
    x = torch.tensor([-1.5, 0.0, 0.25, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: softcube(t), (x,))
    assert torch.autograd.gradgradcheck(lambda t: softcube(t), (x,))


def test_it_is_a_record_like_all_others(softcube):
    assert opdef.find_op(softcube.name) is softcube
    assert softcube.kind == "elementwise" == ops.exp.kind
