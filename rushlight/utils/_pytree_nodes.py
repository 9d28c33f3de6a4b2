"""The kinds of containers that `_pytree` takes apart, and how users register their own.

A kind is a `NodeDef`: how to list the children, how to build the container again, and the key of
each child. Registered kinds are known to `compile` too (`base/pytree.py`).
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rushlight.base import pytree as _base


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The way to an element of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The way to a value of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The way to a field of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """One kind of container."""

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


SUPPORTED_NODES: dict[type, NodeDef] = {}
CONSTANT_NODES: set[type] = set()


def is_namedtuple_class(cls: Any) -> bool:
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
    )


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def dict_flatten(tree: dict) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), list(tree.keys())


def dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict:
    return dict(zip(context, values, strict=True))


def dict_flatten_with_keys(tree: dict) -> tuple[list[tuple[Any, Any]], list[Any]]:
    values, context = dict_flatten(tree)
    return [(MappingKey(k), v) for k, v in zip(context, values, strict=True)], context


def _indexed(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _fields_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    named = zip(type(tree)._fields, tree, strict=True)
    return [(GetAttrKey(name), value) for name, value in named], type(tree)


def _default_flatten(tree: defaultdict) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), [tree.default_factory, list(tree.keys())]


def _default_with_keys(tree: defaultdict) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return dict_flatten_with_keys(tree)[0], [tree.default_factory, list(tree.keys())]


BUILT_IN = (
    NodeDef(tuple, lambda t: (list(t), None), lambda v, _: tuple(v),
            lambda t: (_indexed(t), None)),
    NodeDef(list, lambda t: (t, None), lambda v, _: list(v), lambda t: (_indexed(t), None)),
    NodeDef(dict, dict_flatten, dict_unflatten, dict_flatten_with_keys),
    NodeDef(OrderedDict, dict_flatten, lambda v, c: OrderedDict(zip(c, v, strict=True)),
            dict_flatten_with_keys),
    NodeDef(defaultdict, _default_flatten,
            lambda v, c: defaultdict(c[0], zip(c[1], v, strict=True)), _default_with_keys),
    NodeDef(deque, lambda t: (list(t), t.maxlen), lambda v, c: deque(v, maxlen=c),
            lambda t: (_indexed(t), t.maxlen)),
)  # fmt: skip
SUPPORTED_NODES.update({node.type: node for node in BUILT_IN})
# Named tuples share one entry; the context is their class.
NAMEDTUPLE = NodeDef(
    namedtuple, lambda t: (list(t), type(t)), lambda v, c: c(*v), _fields_with_keys
)
SUPPORTED_NODES[namedtuple] = NAMEDTUPLE  # type: ignore[index]


def find_node(tree: Any) -> NodeDef | None:
    """How this container is taken apart; None for a leaf."""
    found = SUPPORTED_NODES.get(type(tree))
    if found is None and is_namedtuple_instance(tree):
        return NAMEDTUPLE
    if found is None and type(tree).__module__ == "torch.return_types":
        return _register_result(type(tree))
    return found


def _register_result(cls: type) -> NodeDef:
    """Results with named fields (`torch.max(x, 0)`): a class is known from its first result on."""
    SUPPORTED_NODES[cls] = NodeDef(
        cls, lambda t: (list(t), None), lambda v, _: cls(v), lambda t: (_indexed(t), None)
    )
    return SUPPORTED_NODES[cls]


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any], *, serialized_type_name: str | None = None,
    to_dumpable_context: Any = None, from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:  # fmt: skip
    """Make objects of `cls` containers: their children are visited, not they themselves."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _base.register(cls, flatten_fn, unflatten_fn)


def register_old(
    cls: type, flatten_fn: Any, unflatten_fn: Any, to_str_fn: Any = None,
    maybe_from_str_fn: Any = None, **options: Any,
) -> None:  # fmt: skip
    """The older name of `register_pytree_node`."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None, serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Make a dataclass a container of its fields; fields that hold None are left out."""
    dropped = drop_field_names or []
    fields = field_names or [f.name for f in dataclasses.fields(cls) if f.init]
    names = [name for name in fields if name not in dropped]

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        kept = [name for name in names if getattr(obj, name) is not None]
        return [(GetAttrKey(name), getattr(obj, name)) for name in kept], kept

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        pairs, kept = flatten_with_keys(obj)
        return [value for _, value in pairs], kept

    def unflatten(values: Iterable[Any], kept: Any) -> Any:
        empty = dict.fromkeys(names)
        return cls(**{**empty, **dict(zip(kept, values, strict=True))})

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def register_constant(cls: type) -> None:
    """Objects of `cls` are part of the structure: no children, and no leaves."""
    CONSTANT_NODES.add(cls)
    register_pytree_node(cls, lambda obj: ([], obj), lambda values, obj: obj)


def is_constant_class(cls: type) -> bool:
    return cls in CONSTANT_NODES


def deregister_pytree_node(cls: type) -> None:
    """Forget a registered kind."""
    del SUPPORTED_NODES[cls]
    _base.forget(cls)
