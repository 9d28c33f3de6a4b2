"""One parameter of an op, and how an argument given for it becomes an operand or an attribute.

In: the parameters of a record and what the caller gave. Out: Nodes of the right dtypes, attributes
in their normal form (a dim is not negative, a list is a tuple).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from types import FunctionType
from typing import Any

from rushlight.base.dtypes import DType, bool_, float64, int64
from rushlight.ir.node import Node, const_node, with_dtype


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an op, in the order of the public signature.

    kind    "tensor"  an operand; optional=True allows None; variadic=True takes a list of tensors
            "value"   a Python number given by the user: a scalar *source* of the node
            "attr"    static and hashable: part of the meaning (a dim list, a flag, a dtype, a name)
            "dim" / "dims"  an attr that is a dimension or a tuple of them (None stays None);
                      `node()` makes it non-negative against the first tensor operand
            "size" / "sizes"  an attr holding sizes: may become symbolic (an Expr)
            "offset" / "offsets"  an attr holding places (slice starts): constants of a
            program at first sight, variables once they have changed, never shared with a size
    """

    name: str
    kind: str = "tensor"
    default: Any = inspect.Parameter.empty
    optional: bool = False
    variadic: bool = False

    @property
    def is_attr(self) -> bool:
        return self.kind not in ("tensor", "value")


def parameter_names(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a rule's parameters. Read off its code where that says all: there are hundreds
    of rules, and `inspect.signature` takes 25 us."""
    while wrapped := getattr(rule, "__wrapped__", None):
        rule = wrapped
    code = rule.__code__ if type(rule) is FunctionType else None
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(rule).parameters)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def first_operand(params: tuple[Param, ...], named: dict[str, Any]) -> Node | None:
    """The first that is no number leaf, or else the first leaf that stands alone."""
    given = [(named[param.name], param.variadic) for param in params if param.kind == "tensor"]
    for arg, variadic in given:
        for item in arg if variadic else (arg,):
            if isinstance(item, Node) and item.leaf not in ("const", "scalar"):
                return item
    return next((arg for arg, _ in given if isinstance(arg, Node)), None)


def all_values(args: tuple[Any, ...]) -> bool:
    """Nodes that are no number leaves: nothing to convert."""
    return all([type(a) is Node and a.leaf not in ("const", "scalar") for a in args])


def unify_leaves(params: tuple[Param, ...], named: dict[str, Any]) -> None:
    """Numbers and number leaves take the dtype of the first real operand they meet.

    `condition` (of `where`) keeps its own dtype.
    """
    names = [p.name for p in params if p.kind == "tensor" and p.name != "condition"]
    fixed = leaf_dtype = None
    loose = False
    for name in names:
        arg = named[name]
        if arg is None:
            continue
        if isinstance(arg, Node):
            if arg.leaf not in ("const", "scalar"):
                fixed = fixed or arg.dtype
                continue
            leaf_dtype = leaf_dtype or arg.dtype
        loose = True
    if not loose or len(names) == 1 and leaf_dtype:
        return
    dtype = fixed or leaf_dtype or value_dtype(named[names[0]])
    for name in names:
        arg = named[name]
        if arg is None:
            continue
        if not isinstance(arg, Node):
            named[name] = const_node(arg, dtype)
        elif arg.leaf in ("const", "scalar"):
            named[name] = with_dtype(arg, dtype)


def value_dtype(value: Any) -> DType:
    return {bool: bool_, int: int64}.get(type(value), float64)


def normal_attr(param: Param, arg: Any, first: Node | None) -> Any:
    if param.kind == "dim" and arg is not None and first is not None:
        return wrap_dim(arg, first.ndim)
    if param.kind == "dims" and arg is not None and first is not None:
        dims = tuple(arg) if isinstance(arg, (tuple, list)) else (arg,)
        wrapped = tuple(wrap_dim(d, first.ndim) for d in dims)
        if len(set(wrapped)) != len(wrapped):
            twice = next(d for d in wrapped if wrapped.count(d) > 1)
            raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
        return wrapped
    if isinstance(arg, (list, tuple)) or (param.kind in ("sizes", "offsets") and arg is not None):
        return tuple([whole_number(item) for item in arg])
    return whole_number(arg)


def whole_number(arg: Any) -> Any:
    """A whole number of another class (a tensor without dims, numpy's) as an int, all else as it
    is: a tensor among the attributes would be compared by its elements."""
    if isinstance(arg, int) or not hasattr(type(arg), "__index__"):
        return arg
    return index(arg)


def wrap_dim(dim: int, ndim: int) -> int:
    """A non-negative dimension; IndexError with PyTorch's text when out of range."""
    dim = index(dim)
    low, high = (-1, 0) if ndim == 0 else (-ndim, ndim - 1)
    if not low <= dim <= high:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
        )
    return dim + max(ndim, 1) if dim < 0 else dim
