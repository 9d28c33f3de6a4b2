"""Running sums in one pass and in three steps have equal bits; few rows take the steps."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.ops as ops
from rushlight.base.dtypes import float32
from rushlight.compiler import pipeline
from rushlight.compiler.graph.split_running_sums import split_running_sums
from rushlight.engine import realize
from rushlight.ir.node import Node, buffer_node, topological
from rushlight.ir.symint import Var
from rushlight.ops.reduce import running_sums


def names(root: Node) -> set[str]:
    return {node.name for node in topological([root])}


@pytest.mark.parametrize(("rows", "least", "is_one"), [(4, 4, True), (3, 4, False), (9, 0, False)])
def test_few_rows_and_targets_without_it_take_steps(rows, least, is_one):
    for shape, dim in (((rows, 1100), 1), ((1100, rows), 0)):
        root = ops.scan_running_sum(buffer_node(None, shape, float32), dim)
        (split,) = split_running_sums(least, [root])
        assert ("scan_running_sum" in names(split)) == is_one
        assert ("scan_sum" in names(split)) != is_one
        assert split.shape == root.shape and split.dtype is root.dtype


def test_rows_of_any_number_count_as_many():
    for shape, is_one in (((Var("n", 0), 1100), True), ((2, Var("n", 0)), False)):
        root = ops.scan_running_sum(buffer_node(None, shape, float32), 1)
        (split,) = split_running_sums(8, [root])
        assert ("scan_running_sum" in names(split)) == is_one


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_bits_do_not_tell_how_it_was_done(dtype, dim, monkeypatch):
    """One pass, three steps, and the record's own meaning."""
    shape = [6, 9, 11]
    shape[dim] = 1300
    values = np.random.default_rng(dim).standard_normal(shape).astype(dtype)
    values.ravel()[:4] = -0.0, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        found = [running_sums(values, dim).tobytes()]
    asked = []
    for least in (1, 0):

        def split(given, *others, least=least):
            asked.append(least)
            return split_running_sums(least, *others)

        monkeypatch.setattr(pipeline, "split_running_sums", split)
        monkeypatch.setattr(realize, "PROGRAMS", type(realize.PROGRAMS)())
        found.append(torch.from_numpy(values).cumsum(dim).numpy().tobytes())
    assert asked == [1, 0]
    assert found[0] == found[1] == found[2]
