"""linear_cross_entropy beside PyTorch's: values, gradients, errors."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from tests.parity.common import assert_same_error, normalized, random_array  # noqa: E402

SIDES = (rushlight, torch)
pytestmark = pytest.mark.filterwarnings("ignore")
TARGET = np.array([0, 3, -100, 6, 2, 1])


def loss_and_gradients(module, reduction, settings, places, soft, options):
    rows, classes, width = 6, 7, 4
    x = module.from_numpy(random_array((rows, width), 1)).requires_grad_()
    w = module.from_numpy(random_array((classes, *places, width), 2)).requires_grad_()
    b = module.from_numpy(random_array((classes, *places), 3)).requires_grad_()
    if soft:
        target = module.softmax(module.from_numpy(random_array((rows, classes, *places), 4)), 1)
    else:
        target = module.from_numpy(np.broadcast_to(TARGET[:, None], (rows, 2)).copy())
        target = target if places else target[:, 0]
    weight = settings.get("weight")
    settings = {**settings, "weight": None if weight is None else module.from_numpy(weight)}
    options = module.nn.LinearCrossEntropyOptions(batch_chunk_size=2) if options else None
    loss = module.nn.functional.linear_cross_entropy(
        x, w, target, linear_bias=b, reduction=reduction, options=options, **settings
    )
    up = module.from_numpy(random_array(tuple(loss.shape), 5)) if reduction == "none" else 1.0
    (loss * up).sum().backward()
    return [t.detach().numpy() for t in (loss, x.grad, w.grad, b.grad)]


SETTINGS = [
    {}, {"label_smoothing": 0.1}, {"weight": np.linspace(0.5, 1.5, 7, dtype=np.float32)},
    {"label_smoothing": 0.2, "weight": np.linspace(0.5, 1.5, 7, dtype=np.float32)},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=range(4))
@pytest.mark.parametrize(
    ("reduction", "places", "soft"),
    list(itertools.product(["mean", "sum", "none"], [(), (2,)], [False, True])),
)
def test_values_and_gradients(reduction, places, soft, settings):
    ours, real = (
        loss_and_gradients(m, reduction, settings, places, soft, not places and not soft)
        for m in SIDES
    )
    for got, want in zip(ours, real, strict=True):
        np.testing.assert_allclose(got, want, atol=3e-6, rtol=1e-5)


def bad_calls(module):
    """Calls that PyTorch refuses, by name."""
    x, w, t = module.zeros(6, 4), module.zeros(9, 4), module.arange(6)
    loss, options = module.nn.functional.linear_cross_entropy, module.nn.LinearCrossEntropyOptions
    return {
        "widths": lambda: loss(x, module.zeros(9, 5), t),
        "weight 1d": lambda: loss(x, w[0], t),
        "float target": lambda: loss(x, w, module.zeros(6)),
        "multi target": lambda: loss(x, w, module.zeros(6, 1)),
        "short target": lambda: loss(x, w, t[:5]),
        "int32 target": lambda: loss(x, w, t.int()),
        "int probabilities": lambda: loss(x, w, module.zeros(6, 9).long()),
        "reduction": lambda: loss(x, w, t, reduction="avg"),
        "smoothing": lambda: loss(x, w, t, label_smoothing=1.5),
        "bias": lambda: loss(x, w, t, linear_bias=module.zeros(8)),
        "class weight 2d": lambda: loss(x, w, t, weight=w),
        "probabilities": lambda: loss(x, w, module.zeros(6, 9), ignore_index=3),
        "unbatched": lambda: loss(x[0], w.reshape(3, 3, 4), t[0]),
        "K-dim target": lambda: loss(x, w.reshape(3, 3, 4), t),
        "policy": lambda: options(acc_policy="x"),
        "method": lambda: options(chunking_method="x"),
        "chunk": lambda: options(batch_chunk_size=0),
        "acc_dtype": lambda: options(acc_dtype=module.int32),
        "conflict": lambda: loss(
            x, w, t, options=options(batch_chunk_size=4, chunking_method="aspect_ratio")
        ),
        "module weight": lambda: module.nn.LinearCrossEntropyLoss(4, 9, weight=module.ones(3)),
        "module smoothing": lambda: module.nn.LinearCrossEntropyLoss(4, 9, label_smoothing=2),
    }


@pytest.mark.parametrize("name", bad_calls(rushlight))
def test_errors(name):
    assert_same_error(bad_calls(rushlight)[name], bad_calls(torch)[name])


def test_module():
    ours, real = (m.nn.LinearCrossEntropyLoss(4, 9, bias=True) for m in SIDES)
    assert normalized(repr(ours)) == normalized(repr(real))
    assert list(ours.state_dict()) == list(real.state_dict())
    assert normalized(rushlight.nn.LinearCrossEntropyOptions()) == normalized(
        torch.nn.LinearCrossEntropyOptions()
    )
