"""Dtype and arity rules of the basic scalar ops: what one expression node may look like."""

from __future__ import annotations

from rushlight.ir.scalar import BASIC, MATH_BINARY, MATH_UNARY, E, bool_


class Invalid(ValueError):
    """One expression breaks a rule; the caller says where."""


_ARITHMETIC = frozenset("add sub mul neg abs".split())
_FLOAT = frozenset("div fma sqrt floor ceil trunc rint".split()) | {*MATH_UNARY, *MATH_BINARY}
_INT = frozenset("idiv irem shl shr".split())
_BITS = frozenset("and or xor not".split())
_COMPARE = frozenset("lt le gt ge eq ne".split())
_LEAVES = frozenset("const param index load local acc".split())
_ARITY = (
    dict.fromkeys("neg abs sqrt floor ceil trunc rint not cast bitcast check_index".split(), 1)
    | dict.fromkeys(MATH_UNARY, 1)
    | {"fma": 3, "select": 3}
)


def check_node(node: E, expanded: bool = True) -> None:
    """Raise Invalid unless the node's arguments and dtype follow the rules of its op."""
    op, args = node.op, node.args
    if op not in BASIC:
        if op not in MATH_UNARY and op not in MATH_BINARY:
            raise Invalid(f"unknown scalar op {op!r}")
        if expanded:
            raise Invalid(f"math op {op!r} is left: run decompose_math.expand first")
    if op in _LEAVES:
        if (
            op == "load"
            and args
            and (args[0].dtype is not bool_ or args[1].dtype is not node.dtype)
        ):
            raise Invalid("a load's mask must be bool and its other value of the buffer's dtype")
        return
    if len(args) != _ARITY.get(op, 2):
        raise Invalid(f"{op} takes {_ARITY.get(op, 2)} arguments, {len(args)} given")
    if op == "cast":
        return
    if op == "bitcast":
        if args[0].dtype.itemsize != node.dtype.itemsize:
            raise Invalid(f"bitcast from {args[0].dtype.name} to {node.dtype.name}: other size")
        return
    _check_dtypes(node)


def _check_dtypes(node: E) -> None:
    op, args = node.op, node.args
    values = args[1:] if op == "select" else args
    if op == "select" and args[0].dtype is not bool_:
        raise Invalid(f"select's condition is {args[0].dtype.name}, must be bool")
    names = [a.dtype.name for a in values]
    if len(set(names)) > 1:
        raise Invalid(f"{op} of different dtypes: {', '.join(names)}")
    operand = values[0].dtype
    if node.dtype is not (bool_ if op in _COMPARE else operand):
        raise Invalid(f"{op} of {operand.name} gives {node.dtype.name}")
    if op == "select":
        return
    kind = operand.kind
    if operand.compute is not operand and op not in _COMPARE:
        raise Invalid(
            f"{op} on {operand.name}: arithmetic is on {operand.compute.name}, cast first"
        )
    wrong = (
        (op in _FLOAT and kind != "float")
        or (op in _INT and kind not in ("int", "uint"))
        or (op in _BITS and kind == "float")
        or (op in _ARITHMETIC and kind == "bool")
        or (op == "check_index" and kind not in ("int", "uint"))
    )
    if wrong:
        raise Invalid(f"{op} is not defined on {operand.name}")
