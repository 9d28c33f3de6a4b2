"""Running a graph node by node, and modules made of graphs."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg


def attribute(module: Any, path: str) -> Any:
    """The attribute "layer.weight" of a module."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


class Interpreter:
    """Runs a GraphModule. A subclass may do each kind of node its own way."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None) -> None:
        self.module, self.graph = module, graph or module.graph
        self.env: dict[Node, Any] = {}
        self.args_iter: Any = iter(())

    def run(self, *args: Any, initial_env: dict | None = None, **_: Any) -> Any:
        """The output for these inputs."""
        self.env, self.args_iter = dict(initial_env or {}), iter(args)
        last_use = {source: n for n in self.graph.nodes for source in n.all_input_nodes}
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            for source in node.all_input_nodes:
                if last_use[source] is node:
                    self.env.pop(source, None)
        return None

    def run_node(self, n: Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a node, with the values that were found for other nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """The same with values in place of nodes."""
        return map_arg(args, lambda node: self.env[node])

    def fetch_attr(self, target: str) -> Any:
        """A tensor or module of the GraphModule, by dotted name."""
        return attribute(self.module, target)

    def placeholder(self, target: Any, args: tuple, kwargs: dict) -> Any:
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise TypeError(f"forward() missing 1 required positional argument: '{target}'")

    def get_attr(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return attribute(self.module, target)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return attribute(self.module, target)(*args, **kwargs)

    def output(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return args[0]


class GraphModule(torch.nn.Module):
    """A module whose forward is a graph; it has the submodules and tensors of `root` that the
    graph names. root: a module, or a dict of names and values."""

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.graph, self._class_name = graph, class_name
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                value = root[node.target] if isinstance(root, dict) else attribute(
                    root, node.target)  # fmt: skip
                self._put(node.target, value)
        if isinstance(root, torch.nn.Module):
            self.training = root.training

    def _put(self, path: str, value: Any) -> None:
        *parents, name = path.split(".")
        owner: Any = self
        for part in parents:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            if name not in owner._buffers:
                owner.register_buffer(name, value)
        elif not hasattr(owner, name):
            setattr(owner, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        names = [n.target for n in self.graph.nodes if n.op == "placeholder"]
        given = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)]
        return Interpreter(self).run(*given)

    def recompile(self) -> Any:
        """Nothing is kept of the graph, so it may be changed at any time."""
        return self.graph.python_code()

    @property
    def code(self) -> str:
        return self.graph.python_code().src

    def print_readable(self, print_output: bool = True) -> str:
        if print_output:
            print(self.code)
        return self.code

    def delete_all_unused_submodules(self) -> None:
        """Take away submodules that the graph does not call."""
        used = {n.target for n in self.graph.nodes if n.op == "call_module"}
        for name, _ in list(self.named_children()):
            if not any(path == name or path.startswith(f"{name}.") for path in used):
                delattr(self, name)


class Transformer(Interpreter):
    """An Interpreter that makes a new graph: a subclass changes what it does with a node."""

    def transform(self) -> GraphModule:
        """The new module."""
        tracer = torch.fx.Tracer()
        tracer.root = self.module
        self.tracer = tracer
        self.env = {}
        for node in self.graph.nodes:
            self.env[node] = self.run_node(node)
        return GraphModule(self.module, tracer.graph)

    def placeholder(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return torch.fx.Proxy(self.tracer.graph.placeholder(target), self.tracer)

    def get_attr(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return torch.fx.Proxy(self.tracer.graph.get_attr(target), self.tracer)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.tracer.call("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.tracer.call("call_method", target, args, kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.tracer.call("call_module", target, args, kwargs)

    def output(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.tracer.graph.output(self.tracer.create_arg(args[0]))
