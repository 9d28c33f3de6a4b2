"""Expressions on tensors, evaluated by Rushlight and by PyTorch: values, dtypes, shapes, strides,
texts and errors must agree."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402
from tests.tensor_tables import ERRORS, EXPRESSIONS, REPRS, fault, run  # noqa: E402


def plain(value):
    """What can be compared: nested tuples of arrays with dtype and shape, or Python values."""
    if isinstance(value, tuple | list) and type(value).__name__ != "Size":
        return [plain(item) for item in value]
    if hasattr(value, "detach"):
        value = value.detach()
        if value.dtype.__repr__() == "torch.bfloat16":
            return ("torch.bfloat16", tuple(value.shape), value.float().numpy().copy())
        return (repr(value.dtype), tuple(value.shape), value.numpy().copy())
    if hasattr(value, "is_floating_point"):
        return repr(value)
    return value


def same(ours, theirs, tolerance=2e-5):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, tolerance)
    elif isinstance(theirs, tuple) and len(theirs) == 3 and isinstance(theirs[2], np.ndarray):
        assert ours[:2] == theirs[:2]
        np.testing.assert_allclose(ours[2], theirs[2], tolerance, tolerance)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-5, nan_ok=True)
    else:
        assert ours == theirs and type(ours).__name__ == type(theirs).__name__


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_gives_what_pytorch_gives(text):
    same(plain(run(rushlight, text)), plain(run(torch, text)))


@pytest.mark.parametrize("text", REPRS)
def test_repr_is_pytorchs(text):
    assert repr(run(rushlight, text)) == repr(run(torch, text))


@pytest.mark.parametrize("text", ERRORS)
def test_error_has_pytorchs_class_and_text(text):
    if "cuda" in text and torch.version.cuda is not None:
        pytest.skip("ours is the text of a PyTorch without CUDA; this one is built with it")
    (kind, message), (want_kind, want) = fault(rushlight, text), fault(torch, text)
    assert want_kind is not None, "PyTorch accepts this"
    assert kind is not None and issubclass(kind, want_kind), (kind, message, want_kind, want)
    assert message.splitlines()[0] == want.splitlines()[0]
