"""What the transforms ask of functions, arguments and results, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.utils._pytree import tree_leaves


def check_tensors(value: Any) -> None:
    """What is differentiated by must be tensors."""
    for leaf in tree_leaves(value):
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")


def check_argnums(args: tuple[Any, ...], argnums: int | tuple[int, ...]) -> None:
    """The arguments that are differentiated by must be among those given by position."""
    for number in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")


def with_aux(result: Any, has_aux: bool, call: str) -> tuple[Any, Any]:
    """(outputs, aux); aux is None where there is none. `call` is the transform, for errors."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def check_outputs(outputs: Any, call: str) -> list[Any]:
    """The tensors that a function gave."""
    leaves = tree_leaves(outputs)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            function = "f(*args)" if "args" in call else "f(*primals)"
            raise RuntimeError(
                f"{call}: expected {function} to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )
    return leaves
