"""The op record: everything the project knows about an op, said once.

An op is *primitive* (the compiler lowers it: it has a `scalar` body, or its `kind` is one of
PRIMITIVE_KINDS) or *composite* (it has a `decompose`). Tensor methods, functional forms, autograd,
the interpreter, lowering, docs and tests read the record.

`rushlight.ops.exp(node)`: a Node in, a Node out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.base.dtypes import DType
from rushlight.ir.arguments import (
    Param,
    all_values,
    first_operand,
    normal_attr,
    parameter_names,
    unify_leaves,
    value_dtype,
)
from rushlight.ir.complex_operands import check_complex
from rushlight.ir.node import Node, const_node, meta_of, node_of, scalar_node
from rushlight.ir.node_cache import NodeCache

# What the compiler can lower besides `scalar` (elementwise) records.
PRIMITIVE_KINDS = (
    "movement",  # reshape permute expand slice_ slice_scatter_ flip pad cat unfold
    "reduce",  # reduce_sum reduce_prod reduce_max reduce_min reduce_any reduce_all argmax_ argmin_
    "scan",  # scan_sum scan_running_sum scan_prod scan_max scan_min scan_argmax scan_argmin
    "gather",  # gather_nd
    "scatter",  # scatter_nd
    "dot",  # dot dot_sliding
    "pairs",  # pair_dot pair_index pair_mask
    "attention",  # flash_attention flash_lse flash_top pair_sum pair_bins
    "sort",  # argsort_, argtopk_
    "iota",  # iota
    "random",  # random_bits
    "host",  # runs on the host between segments (LAPACK, custom calls)
    "complex",  # complex numbers and their parts; the pass complex_to_real removes these
    "interleave",  # two real values to the memory of a complex one
)


def Arg(name: str, *, optional: bool = False, variadic: bool = False) -> Param:
    return Param(name, "tensor", None if optional else inspect.Parameter.empty, optional, variadic)


def Value(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "value", default)


def Attr(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "attr", default)


def Dim(name: str = "dim", default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "dim", default)


def Dims(name: str = "dim", default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "dims", default)


def Size(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "size", default)


def Sizes(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "sizes", default)


def Offset(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "offset", default)


def Offsets(name: str, default: Any = inspect.Parameter.empty) -> Param:
    return Param(name, "offsets", default)


@dataclass(frozen=True, slots=True)
class NotDifferentiable:
    """`grad` of an op that has none, with the reason shown to a user who asks for it."""

    reason: str


class _FromDecomposition:
    def __repr__(self) -> str:
        return "FROM_DECOMPOSITION"


FROM_DECOMPOSITION = _FromDecomposition()


@dataclass(slots=True, eq=False)
class Call:
    """The bound arguments of one call, as shape, dtype, decompose and grad rules see them.

    Nobody changes one after it is made (not frozen: one is made for every op recorded).

    src     tuple of Nodes: the tensor operands (None left out, lists flattened), then the values
    named   parameter name -> Node | None | list of Nodes | attribute value
    """

    op: OpDef
    src: tuple[Node, ...]
    attrs: tuple[Any, ...]
    named: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.named[name]


@dataclass(frozen=True, eq=False)
class OpDef:
    """One op. See the module docstring; fields are checked when the record is declared.

    shape(call) -> tuple            dtype(call) -> DType
    scalar      elementwise: function(*scalar expressions, **attrs) -> scalar expression
                (rushlight.ir.scalar builds them), or the name of a scalar op
    kind        "elementwise", one of PRIMITIVE_KINDS, or "composite" (derived)
    decompose   function(*operands, **attrs) -> Node, written with other ops; parameter names are
                the record's; operands are Nodes (or None); values arrive as scalar Nodes
    compute_f32 composite: bfloat16/float16 operands are cast to float32, the result once back
    grad        function whose parameter NAMES say what it reads (and so what is saved):
                `g` the output's gradient, `out` the output, any operand or attribute by its name,
                `meta` shapes/dtypes/needs without saving a value. Returns a tuple with one entry
                per tensor parameter, omitted optional ones too; a list for a variadic one (None =
                no gradient; missing tail = None). A gradient whose shape is the broadcast one is
                summed to the operand's by the engine, and cast to its dtype.
    promote     how the public function unifies dtypes: "same" (default), "float" (ints become the
                default float), "none"
    torch       public names: "torch.exp", "Tensor.exp", "Tensor.exp_", "nn.functional.softmax"
    cheap       the result costs less to recompute than to keep (saved set, duplication in fusion)
    reference   numpy meaning: function(*arrays, **attrs) -> array; `host`: what plans call instead
    may_refuse  its host function raises for some values (a singular matrix); the user's call of it
                is evaluated at once, so that `try` catches the error
    saves       which of the values that `grad` names are really read, by the attributes (a
                mapping): a function -> names; None: all of them
    unify       number leaves among the operands take the others' dtype (always so for elementwise)
    pair        the same on complex operands: function(*operands, **attrs) in which a complex
                operand is a Pair of real nodes, re and im (ops/complex_pairs.py), and so is a
                complex result. None or a text: complex operands are refused (with that text).
                Movement, gather, scatter, dot and host ops need none; a composite takes what its
                decomposition takes
    sums_pairs  composite: its result is no pair value, though an operand is (ops/pairs.py)
    """

    name: str
    doc: str
    params: tuple[Param, ...]
    shape: Callable[[Call], tuple]
    dtype: Callable[[Call], DType]
    kind: str
    reference: Callable[..., Any] | None
    grad: Any
    scalar: Any = None
    decompose: Callable[..., Node] | None = None
    compute_f32: bool = True
    torch: tuple[str, ...] = ()
    promote: str = "same"
    cheap: bool = False
    host: Callable[..., Any] | None = None
    may_refuse: bool = False
    samples: Callable[..., Any] | None = None
    error_samples: tuple[Any, ...] = ()
    tolerance: dict[str, float] = field(default_factory=dict)
    check: Callable[[Call], None] | None = None
    saves: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    unify: bool = False
    pair: Any = None
    sums_pairs: bool = False
    attr_index: dict[str, int] = field(init=False, default_factory=dict)
    reads: tuple[str, ...] = field(init=False, default=())
    optional: tuple[str, ...] = field(init=False, default=())
    plain: bool = field(init=False, default=False)
    made: NodeCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [p.name for p in self.params if p.is_attr]
        object.__setattr__(self, "attr_index", {name: i for i, name in enumerate(names)})
        object.__setattr__(self, "optional", tuple(p.name for p in self.params if p.optional))
        # Nothing but tensors, each one needed: bound by a short way.
        plain = all(p.kind == "tensor" and not (p.optional or p.variadic) for p in self.params)
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "made", NodeCache(self.params))
        if callable(self.grad):
            object.__setattr__(self, "reads", parameter_names(self.grad))

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple:
        return (find_op, (self.name,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply to Nodes (gives a Node) or to Tensors (gives a Tensor, recorded for autograd).

        Nodes among Tensors are constants of the call (a rule may build an iota or a zero).
        """
        for arg in (*args, *kwargs.values()) if kwargs else args:
            if type(arg) in NEVER_TENSORS:
                continue
            apply = getattr(type(arg), "__rushlight_apply__", None)
            if apply is not None:
                return apply(self, args, kwargs)
            if type(arg) in (list, tuple) and arg:
                apply = getattr(type(arg[0]), "__rushlight_apply__", None)
                if apply is not None:
                    return apply(self, args, kwargs)
        return self.node(*args, **kwargs)

    def node(self, *args: Any, **kwargs: Any) -> Node:
        """Bind, check, infer shape and dtype, and give the (interned) node."""
        known = None if kwargs else self.made.find(args)
        if known is not None:
            return known
        call = self.bind(*args, **kwargs)
        if self.check is not None:
            self.check(call)
        check_complex(call)
        meta = meta_of(self, call.attrs, self.shape(call), self.dtype(call))
        if not kwargs:
            self.made.keep(args, call.src, meta)
        return node_of(meta, call.src)

    def bind(self, *args: Any, **kwargs: Any) -> Call:
        """Match arguments with params; Python numbers among operands become const nodes."""
        if self.plain and not kwargs and len(args) == len(self.params) and all_values(args):
            return Call(self, args, (), {p.name: a for p, a in zip(self.params, args, strict=True)})
        if len(args) > len(self.params):
            raise TypeError(f"{self.name}() takes {len(self.params)} arguments, {len(args)} given")
        named: dict[str, Any] = {}
        for param, arg in zip(self.params, args, strict=False):
            named[param.name] = arg
        for param in self.params[len(args) :]:
            if param.name in kwargs:
                named[param.name] = kwargs.pop(param.name)
            elif param.default is not inspect.Parameter.empty:
                named[param.name] = param.default
            else:
                raise TypeError(f"{self.name}() missing argument '{param.name}'")
        if kwargs:
            raise TypeError(f"{self.name}() got an unexpected argument '{next(iter(kwargs))}'")
        return self._finish(named)

    def _finish(self, named: dict[str, Any]) -> Call:
        if self.unify or self.kind == "elementwise":
            unify_leaves(self.params, named)
        first = first_operand(self.params, named)
        tensors: list[Node] = []
        values: list[Node] = []
        attrs: list[Any] = []
        for param in self.params:
            arg = named[param.name]
            if param.kind == "tensor":
                tensors += self._operands(param, named, first)
            elif param.kind == "value":
                if not isinstance(arg, Node):
                    arg = scalar_node(arg, value_dtype(arg))
                named[param.name] = arg
                values.append(arg)
            else:
                arg = named[param.name] = normal_attr(param, arg, first)
                attrs.append(arg)
        if self.optional:
            # Which optional operands are there, so that `call_of` can name the sources again.
            attrs.append(tuple(name for name in self.optional if named[name] is not None))
        return Call(self, (*tensors, *values), tuple(attrs), named)

    def _operands(self, param: Param, named: dict[str, Any], first: Node | None) -> list[Node]:
        """The Nodes given for a tensor parameter; numbers become constants, also in `named`."""
        arg = named[param.name]
        if param.variadic:
            named[param.name] = list(arg)
            return named[param.name]
        if arg is None:
            if not param.optional:
                raise TypeError(f"{self.name}(): argument '{param.name}' must be Tensor, not None")
            return []
        if not isinstance(arg, Node):
            arg = named[param.name] = const_node(arg, first.dtype)  # type: ignore[union-attr]
        return [arg]

    def call_of(self, node: Node) -> Call:
        """The Call that built a node (its named arguments, from src and attrs)."""
        named: dict[str, Any] = {}
        sources = list(node.src)
        values = [p for p in self.params if p.kind == "value"]
        operands = sources[: len(sources) - len(values)]
        for param, source in zip(values, sources[len(operands) :], strict=True):
            named[param.name] = source
        present = node.attrs[-1] if self.optional else ()
        position = 0
        for param in self.params:
            if param.kind != "tensor":
                continue
            if param.variadic:
                fixed_after = sum(
                    p.kind == "tensor" and not p.variadic
                    for p in self.params[self.params.index(param) + 1 :]
                )
                count = len(operands) - position - fixed_after
                named[param.name] = operands[position : position + count]
                position += count
            elif param.optional and param.name not in present:
                named[param.name] = None
            else:
                named[param.name] = operands[position]
                position += 1
        for name, index in self.attr_index.items():
            named[name] = node.attrs[index]
        return Call(self, node.src, node.attrs, named)


NEVER_TENSORS = frozenset((Node, int, float, bool, str, type(None)))

_OPS: dict[str, OpDef] = {}


def find_op(name: str) -> OpDef:
    return _OPS[name]


def all_ops() -> dict[str, OpDef]:
    """Every declared record by name, in order of declaration."""
    return _OPS


def op(
    *,
    name: str,
    doc: str,
    inputs: tuple[Param, ...],
    shape: Callable[[Call], tuple],
    dtype: Callable[[Call], DType],
    grad: Any,
    reference: Callable[..., Any] | None,
    scalar: Any = None,
    kind: str = "",
    decompose: Callable[..., Node] | None = None,
    **fields: Any,
) -> OpDef:
    """Declare an op. Exactly one of `scalar`, `kind` (a primitive kind) and `decompose`."""
    _check_meaning(name, scalar, kind, decompose)
    if name in _OPS:
        raise ValueError(f"op {name} is declared twice")
    if not doc or reference is None:
        raise ValueError(f"op {name}: doc and reference are required")
    _check_gradient(name, grad, decompose)
    kind = kind or ("elementwise" if scalar else "composite")
    record = OpDef(
        name, doc, tuple(inputs), shape, dtype, kind, reference, grad, scalar, decompose, **fields
    )
    _OPS[name] = record
    return record


def _check_meaning(name: str, scalar: Any, kind: str, decompose: Any) -> None:
    if sum((bool(scalar), bool(kind), bool(decompose))) != 1:
        raise ValueError(f"op {name}: give exactly one of scalar, kind and decompose")
    if kind and kind not in PRIMITIVE_KINDS:
        raise ValueError(f"op {name}: kind {kind!r} is none of {PRIMITIVE_KINDS}")


def _check_gradient(name: str, grad: Any, decompose: Any) -> None:
    if not (callable(grad) or isinstance(grad, NotDifferentiable) or grad is FROM_DECOMPOSITION):
        raise ValueError(f"op {name}: grad must be a rule, FROM_DECOMPOSITION or NotDifferentiable")
    if grad is FROM_DECOMPOSITION and decompose is None:
        raise ValueError(f"op {name}: FROM_DECOMPOSITION needs a decompose")
