"""The exported program: a graph, its signature, its tensors; and `export`, which makes one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import rushlight as torch
from rushlight.export.dims import check_static
from rushlight.export.record import Recorder, functions_noted
from rushlight.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import GraphModule, Interpreter
from rushlight.fx.node import Node

pytree = torch.utils._pytree


class ExportedProgram:
    """What `export` gives: a graph whose inputs are all tensors that it reads.

    graph_signature says what each input is; state_dict has parameters and persistent buffers,
    constants the other tensors.
    """

    def __init__(
        self, graph: Graph, graph_signature: ExportGraphSignature, state_dict: dict[str, Any],
        constants: dict[str, Any], example_inputs: tuple[tuple, dict], trees: tuple[Any, Any],
        training: bool,
    ) -> None:  # fmt: skip
        self.graph, self.graph_signature = graph, graph_signature
        self.state_dict, self.constants = state_dict, constants
        self.example_inputs, self._trees = example_inputs, trees
        self.range_constraints: dict[Any, Any] = {}
        self._training = training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module of all its inputs."""
        return GraphModule({}, self.graph)

    def _tensor(self, spec: InputSpec) -> Any:
        found = self.state_dict if spec.target in self.state_dict else self.constants
        return found[str(spec.target)]

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def parameters(self) -> Iterator[Any]:
        return (value for _, value in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        for spec in self.graph_signature.input_specs:
            if spec.kind is InputKind.BUFFER and spec.target is not None:
                yield spec.target, self._tensor(spec)

    def buffers(self) -> Iterator[Any]:
        return (value for _, value in self.named_buffers())

    def module(self) -> GraphModule:
        """The program as a module: its parameters and buffers are the exported module's own."""
        return _ProgramModule(self)

    def __str__(self) -> str:
        code = "\n".join(f"        {line}" for line in self.graph_module.code.splitlines())
        return (
            f"ExportedProgram:\n    class GraphModule(torch.nn.Module):\n{code}\n\n"
            f"Graph signature: {self.graph_signature}\nRange constraints: {{}}\n"
        )


class _ProgramModule(GraphModule):
    """The graph with its tensors as attributes, called like the module that was exported."""

    def __init__(self, program: ExportedProgram) -> None:
        graph, tensors, attributes = Graph(), {}, {}
        nodes = program.graph.nodes
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=False):
            if spec.target is not None:
                tensors[spec.target] = program._tensor(spec)
                attributes[node] = graph.get_attr(spec.target)
        result = graph.graph_copy(program.graph, attributes)
        graph.output(result)
        super().__init__(tensors, graph)
        self.in_tree, self.out_tree = program._trees
        args, kwargs = program.example_inputs
        self.example, self.keywords = pytree.tree_leaves((args, kwargs)), list(kwargs)
        self.train(program._training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gave, for inputs like the example's."""
        if sorted(kwargs) != sorted(self.keywords):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} "
                f"but expected {self.keywords}"
            )
        leaves, tree = pytree.tree_flatten((args, {name: kwargs[name] for name in self.keywords}))
        if tree != self.in_tree:
            raise ValueError(
                "Trying to flatten user inputs with exported input tree spec:\n"
                f"{self.in_tree}\nbut actually got inputs with tree spec of:\n{tree}"
            )
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node, value, expected in zip(inputs, leaves, self.example, strict=True):
            _check_input(node.name, value, expected)
        return pytree.tree_unflatten(Interpreter(self).run(*leaves), self.out_tree)


def _check_input(name: str, value: Any, expected: Any) -> None:
    """AssertionError, as PyTorch's guards, for an input of another kind than the example's."""
    if not isinstance(expected, torch.Tensor):
        same = type(value) is type(expected) and value == expected
        problem = None if same else f"{name} == {expected!r}"
    elif not isinstance(value, torch.Tensor):
        problem = f"isinstance({name}, Tensor)"
    elif value.dtype != expected.dtype:
        problem = f"{name}.dtype == {expected.dtype}"
    elif value.dim() != expected.dim():
        problem = f"len({name}.size()) == {expected.dim()}"
    else:
        pairs = enumerate(zip(value.shape, expected.shape, strict=True))
        wrong = [f"{name}.size()[{d}] == {size}" for d, (have, size) in pairs if have != size]
        problem = wrong[0] if wrong else None
    if problem is not None:
        raise AssertionError(f"Guard failed: {problem}")


def export(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The program that a module runs for inputs like these.

    The module runs once; what it computes is noted and thrown away, its buffers and the random
    numbers stay as they are. `strict` and the two options after it change nothing.

    Raises: ValueError for `mod` that is no module, TypeError for `args` that is no tuple,
    NotSupportedError for sizes that vary, RuntimeError where the module asks for a value.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> program.module()(torch.tensor([-1.0, 3.0]))
    tensor([0., 3.])
    """
    if not isinstance(mod, torch.nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    check_static(dynamic_shapes)
    keywords = dict(kwargs or {})
    recorder, result, state = _record(mod, args, keywords)
    constants = _lift_constants(recorder, mod, state)
    leaves, out_tree = pytree.tree_flatten(result)
    outputs = [recorder.name_of(x) if isinstance(x, torch.Tensor) else x for x in leaves]
    recorder.graph.output(outputs)
    specs = [
        OutputSpec(OutputKind.USER_OUTPUT, x.name if isinstance(x, Node) else "") for x in outputs
    ]
    kept = mod.state_dict(keep_vars=True)
    constants |= {name: value for name, value in state.items() if name not in kept}
    return ExportedProgram(
        recorder.graph, ExportGraphSignature(recorder.specs, specs), kept, constants,
        (args, keywords), (pytree.tree_structure((args, keywords)), out_tree), mod.training,
    )  # fmt: skip


def _record(mod: torch.nn.Module, args: tuple, kwargs: dict) -> tuple[Recorder, Any, dict]:
    """The noted call, its result, and the module's own parameters and buffers."""
    recorder = Recorder()
    parameters, buffers = dict(mod.named_parameters()), dict(mod.named_buffers())
    persistent = mod.state_dict(keep_vars=True)
    stand_ins = {name: value.clone() for name, value in buffers.items()}
    for name, value in parameters.items():
        arg = f"p_{name.replace('.', '_')}"
        recorder.add_input(InputKind.PARAMETER, arg, value, target=name)
    for name, value in stand_ins.items():
        arg = f"b_{name.replace('.', '_')}"
        more = {"target": name, "persistent": name in persistent}
        recorder.add_input(InputKind.BUFFER, arg, value, **more)
    # A copy of each input: what the program does to it in place is not done to the example.
    given_args, given_kwargs = pytree.tree_map_only(
        torch.Tensor, lambda x: x.clone() if not x.requires_grad else x, (args, kwargs)
    )
    for name, value in _named_inputs(mod, given_args, given_kwargs):
        recorder.add_input(InputKind.USER_INPUT, name, value)
    torch.flush()  # what is pending from now on is computed by the call
    with torch.random.fork_rng(devices=()), recorder, functions_noted(mod):
        result = torch.func.functional_call(
            mod, {**parameters, **stand_ins}, given_args, given_kwargs
        )
    return recorder, result, {**parameters, **buffers}


def _named_inputs(mod: torch.nn.Module, args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """The leaves of the inputs, named after the parameters of `forward`."""
    signature = inspect.signature(mod.forward)
    positional: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [f"{parameter.name}_{i}" for i in range(len(args) - len(positional))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
    for name, value in [*zip(positional, args, strict=False), *kwargs.items()]:
        leaves = pytree.tree_leaves(value)
        for number, leaf in enumerate(leaves):
            is_leaf = len(leaves) == 1 and leaf is value
            yield (name if is_leaf else f"{name}_{number}"), leaf


def _lift_constants(
    recorder: Recorder, mod: torch.nn.Module, state: dict[str, Any]
) -> dict[str, Any]:
    """Make tensors that the graph holds inputs of it, before the caller's; return them by name."""
    graph, constants = recorder.graph, {}
    own = {id(value): f"{prefix}{'.' if prefix else ''}{name}"
           for prefix, part in mod.named_modules() for name, value in vars(part).items()
           if isinstance(value, torch.Tensor)}  # fmt: skip
    users = [s.kind for s in recorder.specs]
    at = users.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in users else len(users)
    for node in graph.find_nodes(op="get_attr"):
        value = recorder.constants[node.target]
        target = own.get(id(value), f"lifted_tensor_{len(constants)}")
        before = graph.nodes[at]
        with graph.inserting_before(before):
            lifted = graph.placeholder(f"c_{target.replace('.', '_')}")
        node.replace_all_uses_with(lifted)
        graph.erase_node(node)
        recorder.nodes[id(value)] = lifted
        recorder.specs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, lifted.name, target))
        constants[target] = value
        at += 1
    return constants
