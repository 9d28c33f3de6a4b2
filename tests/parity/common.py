"""Helpers of the parity tests: the same numbers for both sides, the same errors from both."""

import re

import numpy as np
import pytest
import torch as real

import rushlight as torch


def random_array(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def to_ours(array):
    return torch.from_numpy(np.array(array))


def to_real(array):
    return real.from_numpy(np.array(array))


def normalized(text):
    """Leave out where a class lives: `rushlight.nn...linear.Linear` is `torch.nn...Linear`."""
    return re.sub(r"\b(?:torch|rushlight)(?:\.\w+)*\.(\w+)", r"\1", str(text)).replace("  ", " ")


def assert_same_error(ours, theirs):
    """Both raise; the types have the same name and the texts are equal."""
    with pytest.raises(Exception) as expected:
        theirs()
    with pytest.raises(Exception) as got:
        ours()
    assert type(got.value).__name__ == type(expected.value).__name__, got.value
    assert normalized(got.value) == normalized(expected.value)
