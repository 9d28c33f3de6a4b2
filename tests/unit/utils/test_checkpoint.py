"""Activation checkpointing: what the second run finds, and what is said when it differs."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch
from rushlight.utils.checkpoint import CheckpointError, checkpoint


@pytest.mark.parametrize("reentrant", [True, False])
def test_second_run_has_the_autocast_mode_of_the_first(reentrant):
    weight = torch.ones(4, 4, requires_grad=True)
    x = torch.ones(2, 4, requires_grad=True)
    dtypes = []

    def product(x):
        y = x @ weight
        dtypes.append(y.dtype)
        return y.float()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = checkpoint(product, x, use_reentrant=reentrant)
    out.sum().backward()
    assert dtypes == [torch.bfloat16, torch.bfloat16]
    assert weight.grad.tolist() == [[2.0] * 4] * 4
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("reentrant", [True, False])
def test_second_run_has_the_random_numbers_of_the_first(reentrant):
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(3)
    out = checkpoint(lambda x: torch.nn.functional.dropout(x.exp()), x, use_reentrant=reentrant)
    torch.rand(7)
    out.sum().backward()
    assert ((x.grad == 0) == (out == 0)).all()


def test_contexts_surround_the_two_runs():
    log = []

    @contextlib.contextmanager
    def noting(name):
        log.append(f"{name} begins")
        yield
        log.append(f"{name} ends")

    x = torch.ones(3, requires_grad=True)
    out = checkpoint(
        torch.sin, x, use_reentrant=False, context_fn=lambda: (noting("first"), noting("second"))
    )
    assert log == ["first begins", "first ends"]
    out.sum().backward()
    assert log[2:] == ["second begins", "second ends"]


def other_shape_at_the_second_run():
    runs = []

    def function(x):
        runs.append(1)
        return x.sin() if len(runs) == 1 else torch.cat([x, x]).sin()

    return function


def test_other_shapes_at_the_second_run_are_named():
    x = torch.ones(3, requires_grad=True)
    out = checkpoint(other_shape_at_the_second_run(), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match=r"position 0:\nsaved metadata: .*\[3\]") as error:
        out.sum().backward()
    assert "recomputed metadata: {'shape': torch.Size([6])" in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_reentrant": True, "debug": True}, "only supported when use_reentrant=False"),
        ({"use_reentrant": True, "context_fn": lambda: ()}, "only supported when use_reentrant"),
        ({"use_reentrant": False, "determinism_check": "odd"}, "one of .* but got odd"),
        ({"use_reentrant": True, "power": 2}, "Unexpected keyword arguments: power"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        checkpoint(torch.sin, torch.ones(2, requires_grad=True), **options)
