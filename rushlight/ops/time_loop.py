"""`time_loop`: a step, written as a graph, run over all times.

The step reads carries (what it gave the time before), sequences (their slice of this time) and
constants. Its results go on as carries, are kept for every time, or both. All of them lie in one
flat result: for each root that is kept its values of all times, then the last value of each carry.

The step is an attribute (text of ir/text.py), so a loop of any length is one node: what it costs to
compile does not depend on the number of times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir.interpret import interpret
from rushlight.ir.node import topological
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, op
from rushlight.ir.text import parse_graph
from rushlight.ops.rules import Shape
from rushlight.ops.samples import ErrorSample, Sample, array


class Runner:
    """Who runs a step in a program: set by engine/loops.py."""

    run: Callable[..., np.ndarray] | None = None


def flat_spans(
    times: Any, keeps: Sequence[bool], sizes: Sequence[int], carries: Sequence[int]
) -> tuple[list[Any], list[Any], Any]:
    """Where each kept root and each carry begins in the flat result, and its length."""
    end: Any = 0
    kept, last = [], []
    for keep, size in zip(keeps, sizes, strict=True):
        kept.append(end if keep else None)
        end = end + times * size if keep else end
    for root in carries:
        last.append(end)
        end = end + sizes[root]
    return kept, last, end


def loop_shape(call: Call) -> Shape:
    first_sequence = call["operands"][len(call["carries"])]
    _, _, length = flat_spans(
        first_sequence.shape[0], call["keeps"], call["sizes"], call["carries"]
    )
    return (length,)


def check_loop(call: Call) -> None:
    if call["sequences"] < 1:
        raise ValueError(f"time_loop needs a sequence, sequences={call['sequences']}")
    if len(call["keeps"]) != len(call["sizes"]):
        raise ValueError(
            f"time_loop: {len(call['keeps'])} keeps for {len(call['sizes'])} results of a step"
        )
    for dtype, place in zip(read_dtypes(call["step"]), call["reads"], strict=True):
        given = call["operands"][place].dtype
        if given is not dtype:
            raise TypeError(
                f"time_loop: operand {place} is {given.name}, its step reads {dtype.name}"
            )


@functools.lru_cache(maxsize=256)
def read_dtypes(step: str) -> tuple[DType, ...]:
    """Of what a step reads. Who runs it takes the memory as it is."""
    nodes = topological(list(parse_graph(step)))
    return tuple(node.dtype for node in nodes if node.leaf == "buffer")


def run_compiled(operands: Sequence[np.ndarray], **attrs: Any) -> np.ndarray:
    """What a plan does: the step is compiled, and runs once for every time."""
    assert Runner.run is not None
    return Runner.run(operands, **attrs)


def loop_meaning(
    operands: Sequence[np.ndarray],
    step: str,
    reads: tuple[int, ...],
    carries: tuple[int, ...],
    sequences: int,
    keeps: tuple[bool, ...],
    sizes: tuple[int, ...],
    backwards: bool,
) -> np.ndarray:
    roots = parse_graph(step)
    leaves = [node for node in topological(list(roots)) if node.leaf == "buffer"]
    place = dict(zip(leaves, reads, strict=True))
    state = list(operands[: len(carries)])
    rest = operands[len(carries) :]
    times = len(rest[0])
    kept, last, length = flat_spans(times, keeps, sizes, carries)
    out = np.zeros(length, operands[0].dtype)
    for t in reversed(range(times)) if backwards else range(times):
        given = [*state, *(array[t] for array in rest[:sequences]), *rest[sequences:]]
        found = interpret(roots, lambda leaf, given=given: given[place[leaf]])  # type: ignore[misc]
        for start, size, value in zip(kept, sizes, found, strict=True):
            if start is not None:
                out[start + t * size : start + (t + 1) * size] = value.reshape(-1)
        state = [found[root] for root in carries]
    for start, root, value in zip(last, carries, state, strict=True):
        out[start : start + sizes[root]] = value.reshape(-1)
    return out


def sample_step(kind: str) -> dict[str, str]:
    """h' = h * x + h, kept at all times."""
    lines = ("%0 = buffer", "%1 = buffer", "%2 = mul(%0, %1)", "%3 = add(%2, %0)")
    return {"step": "".join(f"{line} : {kind}[3]\n" for line in lines) + "return %3\n"}


SAMPLE = {
    **sample_step("f32"),
    "reads": (0, 1),
    "carries": (0,),
    "sequences": 1,
    "keeps": (True,),
    "sizes": (3,),
    "backwards": False,
}

time_loop = op(
    name="time_loop",
    doc="A step run over all times: kept results of all times, then the last carries, flat.",
    inputs=(
        Arg("operands", variadic=True),
        Attr("step"),
        Attr("reads"),
        Attr("carries"),
        Attr("sequences"),
        Attr("keeps"),
        Attr("sizes"),
        Attr("backwards", False),
    ),  # fmt: skip
    shape=loop_shape,
    dtype=lambda call: call["operands"][0].dtype,
    kind="host",
    reference=loop_meaning,
    host=run_compiled,
    grad=NotDifferentiable("who records a loop writes another loop for its gradient"),
    check=check_loop,
    samples=lambda rng: [
        Sample(([array(rng, 3), array(rng, 4, 3)],), dict(SAMPLE), typed=sample_step),
        Sample(
            ([array(rng, 3), array(rng, 2, 3)],), SAMPLE | {"backwards": True}, typed=sample_step
        ),
    ],
    error_samples=(
        ErrorSample(
            ([np.ones(3), np.ones((4, 3))],), SAMPLE | {"keeps": (True, False)}, ValueError, "keeps"
        ),
    ),
)
