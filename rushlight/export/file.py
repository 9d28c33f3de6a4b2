"""Exported programs in files.

A file is one of `torch.save` (PyTorch's zip) with a dict of plain values and tensors, so that
reading it runs nothing:

    format      "rushlight.export", version 1
    nodes       the graph: for each node its name, op, target, args, kwargs
    inputs, outputs          the signature
    state_dict, constants    the tensors; parameters: the names of those that are parameters
    example, in_tree, out_tree, training

A node in the arguments of another is {"node": name}; what a pickle of plain values cannot hold
(slices, layouts, dicts) is a dict of one word, too. A target is a method's name, or the dotted name
of a public function; no other function is looked up.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.base.errors import NotSupportedError
from rushlight.export.program import ExportedProgram
from rushlight.export.record import nth_item
from rushlight.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.overrides.dispatch import LEFT, Overridable
from rushlight.tensors.namespace import TABLE

pytree = torch.utils._pytree
FORMAT, VERSION = "rushlight.export", 1
PLAIN = (int, float, complex, str, bool, bytes, type(None), torch.Tensor, torch.dtype, torch.device)
SPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
# Methods that call what they are given, or leave the tensor's world.
NO_METHODS = frozenset(
    "apply_ map_ map2_ backward register_hook register_post_accumulate_grad_hook numpy tofile "
    "module_load as_subclass storage untyped_storage".split()
)
# Python's operators on tensors; not those that look up names or call what they are given.
OPERATORS = frozenset(
    """abs add and_ contains eq floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul imod imul
inv invert ior ipow irshift is_ is_not isub itruediv ixor le lshift lt matmul mod mul ne neg not_
or_ pos pow rshift setitem sub truediv truth xor""".split()
)
DUNDERS = frozenset(
    f"__{lead}{name.strip('_')}__" for name in OPERATORS for lead in ("", "r", "i")
) | {"__rdiv__", "__len__", "__bool__", "__int__", "__float__", "__index__"}
OWN: dict[str, Callable[..., Any]] = {"getattr": getattr, "item": nth_item}
NAMED = {
    torch.memory_format: ("contiguous_format", "channels_last", "channels_last_3d",
                          "preserve_format"),
    torch.layout: ("strided", "sparse_coo", "sparse_csr"),
}  # fmt: skip


def save(
    ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None, pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Write a program; `load` gives it back.

    extra_files: texts or bytes that are kept beside it. Raises TypeError for what is no program,
    NotSupportedError for what a file cannot hold, and for functions without a public name.

    >>> import io
    >>> x, file = torch.tensor([1.0, -2.0]), io.BytesIO()
    >>> save(torch.export.export(torch.nn.ReLU(), (x,)), file)
    >>> _ = file.seek(0)
    >>> load(file).module()(x).tolist()
    [1.0, 0.0]
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got {ep!r:.80}"
        )
    torch.save({**_record(ep), "extra_files": dict(extra_files or {})}, f)


def _record(ep: ExportedProgram) -> dict[str, Any]:
    signature = ep.graph_signature
    return {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [
            (node.name, node.op, _target_name(node), _encode(node.args), _encode(dict(node.kwargs)))
            for node in ep.graph.nodes
        ],
        "inputs": [(s.kind.name, s.arg, s.target, s.persistent) for s in signature.input_specs],
        "outputs": [(s.kind.name, s.arg, s.target) for s in signature.output_specs],
        "state_dict": {name: value.detach() for name, value in ep.state_dict.items()},
        "frozen": [n for n, v in ep.state_dict.items() if not v.requires_grad],
        "constants": {name: value.detach() for name, value in ep.constants.items()},
        "example": _encode(_detached(ep.example_inputs)),
        "in_tree": _skeleton(ep._trees[0]),
        "out_tree": _skeleton(ep._trees[1]),
        "training": ep._training,
    }


def _detached(example: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda value: value.detach(), example)


def _encode(value: Any) -> Any:
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, torch.Size):
        return tuple(value)
    if type(value) in (tuple, list):
        return type(value)(_encode(item) for item in value)
    if isinstance(value, slice):
        return {"slice": [_encode(part) for part in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if type(value) is dict:
        return {"dict": [(key, _encode(item)) for key, item in value.items()]}
    for kind, names in NAMED.items():
        if isinstance(value, kind):
            found = next((name for name in names if getattr(torch, name) == value), None)
            if found is not None:
                return {"torch": found}
    raise NotSupportedError(f"export.save: an argument {value!r:.100} cannot be kept in a file")


def _decode(value: Any, nodes: dict[str, Node]) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_decode(item, nodes) for item in value)
    if type(value) is not dict:
        return value
    ((word, inner),) = value.items()
    if word == "node":
        return nodes[inner]
    if word == "slice":
        return slice(*(_decode(part, nodes) for part in inner))
    if word == "ellipsis":
        return Ellipsis
    if word == "dict":
        return {key: _decode(item, nodes) for key, item in inner}
    if word == "torch" and any(inner in names for names in NAMED.values()):
        return getattr(torch, inner)
    raise ValueError(f"export.load: the file has an unknown word {word!r:.50}")


def _skeleton(tree: Any) -> Any:
    """The structure with numbers for leaves."""
    return _encode(pytree.tree_unflatten(range(tree.num_leaves), tree))


def _target_name(node: Node) -> str:
    if node.op != "call_function":
        return str(node.target)
    for name, function in OWN.items():
        if node.target is function:
            return name
    if getattr(node.target, "__module__", "") == "_operator":
        return f"operator.{node.target.__name__}"
    if isinstance(node.target, Overridable):
        return node.target.public_name
    name = getattr(node.target, "__name__", "")
    for space in SPACES:
        if getattr(_space(space), name, None) is node.target:
            return f"{space}.{name}"
    raise NotSupportedError(f"export.save: {node.target!r:.100} has no public name")


def _space(name: str) -> Any:
    return importlib.import_module(f"rushlight{name.removeprefix('torch')}")


def _public(space: str) -> Any:
    """The names of functions of tensors; not those that read files or change settings."""
    if space == "torch":
        found = TABLE.keys() - LEFT - {"from_file"}
        return [name for name in found if not name.lstrip("_").startswith("set_")]
    return _space(space).__all__ if space in SPACES else ()


def _function(name: str, args: tuple[Any, ...]) -> Any:
    """The function of a target's name. An attribute's name is in the file, and has no underscore in
    front: `__class__` leads to all that Python has."""
    if name == "getattr" and not (
        len(args) == 2 and type(args[1]) is str and not args[1].startswith("_")
    ):
        raise ValueError(f"export.load: the file asks for an attribute {args[1:]!r:.80}")
    if name in OWN:
        return OWN[name]
    space, _, short = name.rpartition(".")
    if space == "operator" and short in OPERATORS:
        return getattr(operator, short)
    found = getattr(_space(space), short, None) if short in _public(space) else None
    if not callable(found):
        raise ValueError(f"export.load: the file calls {name!r:.80}, which is no function of torch")
    return found


def _method(name: str) -> str:
    hidden = name.startswith("_") and name not in DUNDERS
    if hidden or name in NO_METHODS or not callable(getattr(torch.Tensor, name, None)):
        raise ValueError(f"export.load: the file calls {name!r:.80}, which is no method of tensors")
    return name


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:  # fmt: skip
    """Read a program that `save` wrote; nothing of the file is run.

    extra_files: its keys are filled. Raises ValueError for a file of another kind, or with records
    that are none of `save`.
    """
    found = torch.load(f, weights_only=True)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("export.load: this is no file of torch.export.save as Rushlight writes it")
    version = found.get("version")
    if version != VERSION:
        raise NotSupportedError(f"export.load: the file has version {version!r:.50}")
    try:
        kept, program = found["extra_files"], _program(found)
        for name in extra_files or ():
            extra_files[name] = kept.get(name, "")  # type: ignore[index]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"export.load: the file is damaged: {error!r:.200}") from error
    return program


def _program(found: dict[str, Any]) -> ExportedProgram:
    inputs = [InputSpec(InputKind[kind], arg, target, persistent)
              for kind, arg, target, persistent in found["inputs"]]  # fmt: skip
    outputs = [OutputSpec(OutputKind[kind], arg, target) for kind, arg, target in found["outputs"]]
    state = dict(found["state_dict"])
    frozen = set(found["frozen"])
    for spec in inputs:
        if spec.kind is InputKind.PARAMETER and spec.target is not None:
            state[spec.target] = torch.nn.Parameter(state[spec.target], spec.target not in frozen)
    trees = [pytree.tree_structure(_decode(found[name], {})) for name in ("in_tree", "out_tree")]
    return ExportedProgram(
        _graph(found["nodes"]), ExportGraphSignature(inputs, outputs), state, found["constants"],
        _decode(found["example"], {}), (trees[0], trees[1]), found["training"],
    )  # fmt: skip


def _graph(records: list[Any]) -> Graph:
    graph, nodes = Graph(), dict[str, Node]()
    for name, op, target, args, kwargs in records:
        given, named = _decode(args, nodes), _decode(kwargs, nodes)
        if op == "placeholder":
            nodes[name] = graph.placeholder(target)
        elif op == "output":
            nodes[name] = graph.output(given[0])
        elif op == "call_method":
            nodes[name] = graph.call_method(_method(target), given, named)
        elif op == "call_function":
            nodes[name] = graph.call_function(_function(target, given), given, named)
        else:
            raise ValueError(f"export.load: the file has a node of the kind {op!r:.50}")
        if nodes[name].name != name:
            nodes[name].name = name
    return graph
