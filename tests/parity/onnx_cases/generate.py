"""Writes ONNX's generated operator cases as plain data.

In: a file name. Out: a pickle with a list of cases: the nodes of a graph (op, names of inputs and
outputs, attributes), arrays by name, the wanted arrays, tolerances. Run by a Python that has onnx:
python generate.py FILE
"""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests


class Unsuited(Exception):
    """A case that arrays cannot tell: sequences, optional values, graphs in attributes."""


def attribute(value: Any) -> Any:
    """A number, text, array, or a list of such."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, onnx.GraphProto | onnx.TypeProto | onnx.SparseTensorProto):
        raise Unsuited(type(value).__name__)
    return [attribute(item) for item in value]


def array(value: Any) -> np.ndarray:
    """The value of an input or an output."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic):
        raise Unsuited(type(value).__name__)
    return np.asarray(value)


def case_of(test: Any) -> dict:
    """The case with its first data set."""
    model = test.model or onnx.load(f"{test.model_dir}/model.onnx")
    graph = model.graph
    given, want = (list(map(array, values)) for values in test.data_sets[0])
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values |= dict(zip([i.name for i in graph.input], given, strict=False))
    nodes = [
        (
            node.op_type, list(node.input), list(node.output),
            {a.name: attribute(helper.get_attribute_value(a)) for a in node.attribute},
        )
        for node in graph.node
    ]  # fmt: skip
    return {
        "name": test.name, "nodes": nodes, "values": values, "want": want,
        "outputs": [o.name for o in graph.output], "near": (test.rtol, test.atol),
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    cases: list[dict] = []
    for test in load_model_tests(kind="node"):
        try:
            cases.append(case_of(test))
        except Unsuited as error:
            cases.append({"name": test.name, "unsuited": str(error)})
    Path(sys.argv[1]).write_bytes(pickle.dumps(cases))


if __name__ == "__main__":
    main()
