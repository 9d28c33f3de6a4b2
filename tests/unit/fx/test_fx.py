"""torch.fx: tracing, changing a graph, running it."""

import operator

import pytest

import rushlight as torch
from rushlight import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.scale = nn.Linear(3, 4), nn.Parameter(torch.full((4,), 2.0))
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x, shift=1.0):
        y = torch.relu(self.first(x)) * self.scale
        return self.rest(y.view(y.size(0), -1)) + shift


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_a_traced_module_computes_the_same(net):
    traced, x = fx.symbolic_trace(net), torch.randn(5, 3)
    assert torch.equal(traced(x), net(x)) and torch.equal(traced(x, shift=2.0), net(x, 2.0))
    assert set(traced.state_dict()) == set(net.state_dict())
    traced(x).sum().backward()
    assert net.scale.grad is not None


def test_the_nodes(net):
    graph = fx.symbolic_trace(net).graph
    assert [(n.op, n.target if isinstance(n.target, str) else n.target.__name__)
            for n in graph.nodes] == [
        ("placeholder", "x"), ("placeholder", "shift"), ("call_module", "first"),
        ("call_function", "relu"), ("get_attr", "scale"), ("call_function", "mul"),
        ("call_method", "size"), ("call_method", "view"), ("call_module", "rest.0"),
        ("call_module", "rest.1"), ("call_function", "add"), ("output", "output"),
    ]  # fmt: skip
    graph.lint()
    assert "%relu" in str(graph) and "return add" in graph.python_code().src


def test_replacing_a_function():
    traced = fx.symbolic_trace(lambda x, y: torch.add(x, y).relu())
    for node in traced.graph.nodes:
        if node.target is torch.add or node.target == torch.add:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(torch.mul, node.args)
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.recompile()
    assert traced(torch.tensor(3.0), torch.tensor(4.0)).item() == 12


def test_dead_code_and_errors():
    graph = fx.Graph()
    x = graph.placeholder("x")
    kept, dead = graph.call_function(operator.neg, (x,)), graph.call_method("exp", (x,))
    graph.output(kept)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(kept)
    assert graph.eliminate_dead_code() and dead not in graph.nodes
    assert fx.GraphModule({}, graph)(torch.tensor(2.0)).item() == -2


def test_interpreter_and_transformer():
    traced = fx.symbolic_trace(lambda x: (x + 1).sin())

    class Cos(fx.Transformer):
        def call_method(self, target, args, kwargs):
            return super().call_method("cos" if target == "sin" else target, args, kwargs)

    x = torch.tensor(0.5)
    assert torch.equal(Cos(traced).transform()(x), (x + 1).cos())
    seen = []

    class Notes(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.op)
            return super().run_node(n)

    assert torch.equal(Notes(traced).run(x), (x + 1).sin())
    assert seen == ["placeholder", "call_function", "call_method", "output"]


def test_what_cannot_be_traced():
    with pytest.raises(ValueError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    traced = fx.symbolic_trace(lambda x, flag: x if flag else -x, concrete_args={"flag": False})
    assert traced(torch.tensor(1.0)).item() == -1


def test_tensors_of_a_function_become_buffers():
    offset = torch.ones(2)
    traced = fx.symbolic_trace(lambda x: x + offset)
    assert torch.equal(traced(torch.zeros(2)), offset)


def test_layers_with_own_names_stay_one_call(net):
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, name):
            return True

    graph = Whole().trace(net)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["first", "rest"]


def test_the_code_of_numbered_layers_is_python():
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    code = fx.symbolic_trace(torch.nn.Sequential(inner, torch.nn.Tanh())).code
    compile(code, "code", "exec")
    assert 'getattr(getattr(self, "0"), "1")(' in code and 'getattr(self, "1")(' in code
