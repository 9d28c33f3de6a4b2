"""`torch.utils._pytree`: nested containers as a flat list of leaves and a description.

>>> from rushlight.utils._pytree import tree_flatten, tree_map
>>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
>>> leaves
[1, 2, 3]
>>> tree_map(lambda x: x * 10, {"a": [1, 2], "b": (3,)})
{'a': [10, 20], 'b': (30,)}

The kinds of containers are in `_pytree_nodes.py`. None is a leaf, as in PyTorch.
"""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight import names as _names
from rushlight.utils._pytree_nodes import (
    BUILT_IN,
    CONSTANT_NODES,
    NAMEDTUPLE,
    SUPPORTED_NODES,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    deregister_pytree_node,
    dict_flatten,
    dict_flatten_with_keys,
    dict_unflatten,
    find_node,
    is_constant_class,
    is_namedtuple_class,
    is_namedtuple_instance,
    register_constant,
    register_dataclass,
    register_old,
    register_pytree_node,
)

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "arg_tree_leaves", "_broadcast_to_and_flatten", "BUILTIN_TYPES", "CONSTANT_NODES",
    "Context", "_deque_flatten", "_deque_flatten_with_keys", "_deque_unflatten",
    "_deregister_pytree_node", "_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten",
    "_get_node_type", "GetAttrKey", "is_constant_class", "is_namedtuple_class",
    "is_namedtuple_instance", "is_structseq_class", "is_structseq_instance", "key_get",
    "KeyEntry", "KeyPath", "keystr", "LeafSpec", "_list_flatten", "_list_flatten_with_keys",
    "_list_unflatten", "map_only", "MappingKey", "_namedtuple_flatten",
    "_namedtuple_flatten_with_keys", "_namedtuple_unflatten", "NodeDef", "_ordereddict_flatten",
    "_ordereddict_flatten_with_keys", "_ordereddict_unflatten", "PyTree", "register_constant",
    "register_dataclass", "_register_pytree_node", "register_pytree_node", "SequenceKey",
    "SUPPORTED_NODES", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten",
    "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten", "TreeSpec", "treespec_leaf",
    "_tuple_flatten", "_tuple_flatten_with_keys", "_tuple_unflatten",
]  # fmt: skip

# PyTorch's names of what `_pytree_nodes` has.
_deregister_pytree_node, _register_pytree_node = deregister_pytree_node, register_old
_dict_flatten, _dict_unflatten = dict_flatten, dict_unflatten
_dict_flatten_with_keys = dict_flatten_with_keys

_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = SUPPORTED_NODES[tuple][1:]
_list_flatten, _list_unflatten, _list_flatten_with_keys = SUPPORTED_NODES[list][1:]
_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = NAMEDTUPLE[1:]
_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = SUPPORTED_NODES[
    OrderedDict
][1:]
_deque_flatten, _deque_unflatten, _deque_flatten_with_keys = SUPPORTED_NODES[deque][1:]
is_structseq_instance = is_structseq_class = lambda value: False  # no results of C++ here

PyTree = Any
Context = Any
KeyEntry = Any
KeyPath = tuple[Any, ...]
BUILTIN_TYPES = frozenset(node.type for node in BUILT_IN)


def _get_node_type(tree: Any) -> Any:
    """The key of a container's kind in SUPPORTED_NODES; of another object, its class."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


IsLeaf = Callable[[Any], bool] | None


class TreeSpec:
    """The structure of a tree. `type` None: a leaf; `context` is what the kind keeps of itself."""

    __slots__ = ("type", "context", "_children", "_node", "num_nodes", "num_leaves")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self._children = type, context, list(children_specs)
        self._node = NAMEDTUPLE if is_namedtuple_class(context) else SUPPORTED_NODES.get(type)
        self.num_nodes = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves = int(type is None) + sum(child.num_leaves for child in children_specs)

    @property
    def num_children(self) -> int:
        return len(self._children)

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(given))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self._node is None:
            return next(leaves)
        return self._node.unflatten_fn([c._build(leaves) for c in self._children], self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` at the places of this spec's leaves; ValueError if it differs."""
        if self._node is None:
            return [tree]
        node = find_node(tree)
        if node is None or node.type is not self._node.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = node.flatten_fn(tree)
        if isinstance(tree, dict) and isinstance(context, list) and context != self.context:
            children = self._in_order(tree)
        if len(children) != len(self._children):
            raise ValueError(
                f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}."
            )
        parts = zip(self._children, children, strict=True)
        return [leaf for spec, child in parts for leaf in spec.flatten_up_to(child)]

    def _in_order(self, tree: dict) -> list[Any]:
        keys = self.context[1] if self.type.__name__ == "defaultdict" else self.context
        if set(keys) != set(tree):
            raise ValueError(f"Node keys mismatch; expected {keys!r}, but got {list(tree)!r}.")
        return [tree[key] for key in keys]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self._children)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inner = ", ".join(map(repr, self._children))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"

    def __reduce__(self) -> tuple:
        return (TreeSpec, (self.type, self.context, self._children))


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __reduce__(self) -> tuple:
        return (LeafSpec, ())


_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    return _LEAF


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or find_node(tree) is None


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure."""
    leaves: list[Any] = []
    return leaves, _collect(tree, is_leaf, leaves)


def _collect(tree: Any, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else find_node(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_collect(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    yield from tree_flatten(tree, is_leaf)[0]


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`func` of every leaf, and of what the other trees have at its place, in the same tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, leaves, *others))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`func` of every leaf for what it does; gives the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    for parts in zip(leaves, *others, strict=True):
        func(*parts)
    return tree


def map_only(kind: Any) -> Callable[[Callable], Callable]:
    """A decorator: the function only touches what is of these types, or what a test accepts."""

    def matches(value: Any) -> bool:
        return isinstance(value, kind) if _is_kind(kind) else bool(kind(value))

    return lambda func: lambda value: func(value) if matches(value) else value


def _is_kind(kind: Any) -> bool:
    return isinstance(kind, type | tuple) or not callable(kind)


def tree_map_only(kind: Any, /, func: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind: Any, /, func: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, /, pred: Any, tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind: Any, /, pred: Any, tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments of a call."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_leaves(value)]


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """(keys that lead to the leaf, the leaf), in order."""
    return list(_walk(tree, is_leaf, ()))


def _walk(tree: Any, is_leaf: IsLeaf, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else find_node(tree)
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _walk(child, is_leaf, (*path, key))


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """`func(path, leaf, ...)` of every leaf, in the same tree."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *others))


def keystr(kp: KeyPath) -> str:
    """A path as text: `['a'][0].weight`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> Any:
    """One value per leaf of the spec; a leaf of `tree` stands for all below it. None: no fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    node = find_node(tree)
    if treespec.is_leaf() or node is None or node.type is not treespec.type:
        return None
    children, context = node.flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children(), strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found
