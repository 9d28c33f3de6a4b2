"""A case as a function of its tensors, to be mapped over a batch and differentiated twice.

In: a case and a module. Out: its function, arguments with a batch, second derivatives. Everything
here runs on PyTorch (generate_transforms.py) and on Rushlight (check_transforms.py) alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from cases import Decoder, array_in, array_of, dtype_name, from_array, play, seed_of

EXAMPLES = 3
# Where the batch is: in which tensors ("first", "rest" or all of them), in which dimension.
WAYS = {"front": (True, True, 0), "back": (True, True, -1), "first": (True, False, 0),
        "rest": (False, True, 0)}  # fmt: skip
TANGENT = 50  # number of the first seed of the tangents
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def function_of(case: dict, module: ModuleType) -> Callable[..., tuple]:
    """The case's calls: from its tensors to the tensors among its results."""

    def call(*values: Any) -> tuple:
        outs = outputs_of(case, module, values)
        return tuple(v for v in outs if isinstance(v, module.Tensor))

    return call


def outputs_of(case: dict, module: ModuleType, values: Sequence[Any]) -> list[Any]:
    decoder = Decoder(module, case["tensors"], False)
    decoder.made.update(enumerate(values))
    return play(case, module, decoder)


def gradient_of(case: dict, module: ModuleType) -> Callable[..., tuple]:
    """From the tensors to the gradients of those that ask for one, for the seeds of the outputs."""
    function, asks = function_of(case, module), asking(case)

    def scalar(*values: Any) -> Any:
        outs = [v for v in function(*values) if dtype_name(v) in FLOATS]
        seeds = [from_array(module, seed_of(v.shape, i, dtype_name(v)), dtype_name(v))
                 for i, v in enumerate(outs)]  # fmt: skip
        parts = [(v * seed).sum() for v, seed in zip(outs, seeds, strict=True)]
        return sum(part.real if part.is_complex() else part for part in parts)

    return lambda *values: tuple(module.func.grad(scalar, argnums=asks)(*values))


def asking(case: dict) -> tuple[int, ...]:
    return tuple(i for i, entry in enumerate(case["tensors"]) if entry["grad"])


def variants(entry: dict, level: int) -> list[np.ndarray]:
    """The values of a tensor in each example. Level 0: all differ; 1: numbers with fractions do."""
    array = np.array(array_in(entry))
    shape = array.shape
    if array.dtype.kind in "fc" and level < 2:
        return [array * np.asarray(1 - i / 8, array.dtype) for i in range(EXAMPLES)]
    turned = array.reshape(-1)[::-1].reshape(shape)
    return [turned if i == 1 and level < 1 else array for i in range(EXAMPLES)]


def is_batched(way: str, i: int) -> bool:
    return WAYS[way][0 if i == 0 else 1]


def batched(case: dict, module: ModuleType, way: str) -> tuple[list[Any], tuple]:
    """The tensors with a batch, and in_dims."""
    dim = WAYS[way][2]
    values, dims = [], []
    for i, entry in enumerate(case["tensors"]):
        arrays = variants(entry, case["level"])
        have = is_batched(way, i)
        array = np.ascontiguousarray(np.stack(arrays, dim)) if have else arrays[0]
        values.append(from_array(module, array, entry["dtype"]))
        dims.append(dim if have else None)
    return values, tuple(dims)


def example(case: dict, module: ModuleType, way: str, number: int) -> list[Any]:
    """The tensors of one example."""
    found = []
    for i, entry in enumerate(case["tensors"]):
        array = variants(entry, case["level"])[number if is_batched(way, i) else 0]
        found.append(from_array(module, np.array(array), entry["dtype"]))
    return found


def mapped(case: dict, module: ModuleType, function: Callable, way: str) -> list[tuple]:
    """(dtype, array) of each result of vmap, the batch in front."""
    values, dims = batched(case, module, way)
    randomness = "different" if case["draws"] else "error"
    found = module.func.vmap(function, in_dims=dims, randomness=randomness)(*values)
    return [(dtype_name(v), array_of(v)) for v in found]


def looped(case: dict, module: ModuleType, function: Callable, way: str) -> list[tuple]:
    """The same by one call for each example."""
    rows = []
    for number in range(EXAMPLES):
        found = function(*example(case, module, way, number))
        rows.append([(dtype_name(v), array_of(v)) for v in found])
    return [
        (parts[0][0], np.stack([array for _, array in parts])) for parts in zip(*rows, strict=True)
    ]


def given(case: dict, module: ModuleType, grad: bool) -> list[Any]:
    """The tensors of the case."""
    decoder = Decoder(module, case["tensors"], grad)
    return [decoder(("tensor", i)) for i in range(len(case["tensors"]))]


def second(case: dict, module: ModuleType) -> tuple[list[tuple | None], list[tuple | None]]:
    """(J v, the gradients by the inputs) of v · (J^T u): u and v are the seeds of their shapes.

    As PyTorch's `gradgradcheck` looks at it: a gradient is a function of the inputs and of u.
    """
    values = given(case, module, True)
    outs = outputs_of(case, module, values)
    outs = [outs[i] for i in case["outs_with_grad"]]
    inputs = [values[i] for i in asking(case)]
    us = [seed_like(module, v, i).requires_grad_() for i, v in enumerate(outs)]
    grad = module.autograd.grad
    first = grad(outs, inputs, us, create_graph=True, allow_unused=True)
    pairs = [(g, seed_like(module, g, TANGENT + i)) for i, g in enumerate(first)
             if g is not None and g.requires_grad]  # fmt: skip
    found = grad([g for g, _ in pairs], [*us, *inputs], [v for _, v in pairs], allow_unused=True)
    arrays = [None if g is None else (dtype_name(g), array_of(g)) for g in found]
    return arrays[: len(us)], arrays[len(us) :]


def forward(case: dict, module: ModuleType) -> list[tuple]:
    """The same J v by `torch.func.jvp`."""
    values, asked = given(case, module, False), asking(case)

    def chosen(*moved: Any) -> tuple:
        now = dict(zip(asked, moved, strict=True))
        outs = outputs_of(case, module, [now.get(i, v) for i, v in enumerate(values)])
        return tuple(outs[i] for i in case["outs_with_grad"])

    primals = tuple(values[i] for i in asked)
    tangents = tuple(seed_like(module, x, TANGENT + i) for i, x in enumerate(primals))
    _, pushed = module.func.jvp(chosen, primals, tangents)
    return [(dtype_name(t), array_of(t)) for t in pushed]


def seed_like(module: ModuleType, tensor: Any, number: int) -> Any:
    name = dtype_name(tensor)
    return from_array(module, seed_of(tensor.shape, number, name), name)
