"""The oracle takes another of equal elements for right, and nothing else."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "parity" / "oracle"))

from ties import same_gradients, wrong_results  # noqa: E402

X = np.array([2.0, 1.0, 2.0, 3.0], np.float32)
VALUES = np.array([1.0, 2.0, 2.0, 3.0], np.float32)


def case(**kwargs):
    entry = {"values": X, "shape": (4,), "strides": (1,), "dtype": "float32", "grad": True}
    given = ("dict", {name: ("plain", value) for name, value in kwargs.items()})
    want = [("float32", VALUES), ("int64", np.array([1, 0, 2, 3]))]
    return {"calls": [("sort", ("tuple", [("tensor", 0)]), given)], "tensors": [entry],
            "want": want, "noise": [0.0, 0.0], "how": ""}  # fmt: skip


@pytest.mark.parametrize(
    ("index", "stable", "right"),
    [
        ([1, 0, 2, 3], False, True),
        ([1, 2, 0, 3], False, True),
        ([1, 2, 0, 3], True, False),  # a stable sort has one order
        ([1, 2, 2, 3], False, False),  # one element twice, the other never
        ([0, 1, 2, 3], False, False),  # another value
        ([1, 0, 2, 4], False, False),  # no element at all
    ],
)
def test_index_names_an_equal_element(index, stable, right):
    found = wrong_results(
        case(stable=stable), [("float32", VALUES), ("int64", np.array(index))]
    )  # fmt: skip
    assert (found == "") == right, found


def test_values_are_not_excused():
    have = [("float32", VALUES + 1), ("int64", np.array([1, 0, 2, 3]))]
    assert wrong_results(case(), have)


def test_gradient_goes_to_an_equal_element():
    want, asked = ("float32", np.array([5.0, 1.0, 7.0, 2.0], np.float32)), case()
    turned = ("float32", np.array([7.0, 1.0, 5.0, 2.0], np.float32))
    moved = ("float32", np.array([5.0, 7.0, 1.0, 2.0], np.float32))
    assert same_gradients(asked, 0, turned, want, 0.0, 1.0)
    assert not same_gradients(asked, 0, moved, want, 0.0, 1.0)
    assert not same_gradients(case(stable=True), 0, turned, want, 0.0, 1.0)
