"""Exported programs and traced modules in files."""

import io
import zipfile

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F  # noqa: N812


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))

    def forward(self, x, factor=1.0):
        y = self.act(self.norm(self.conv(x)))
        y = F.adaptive_avg_pool2d(y, 1).flatten(1)
        a, b = y.split(2, dim=1)
        z = torch.cat([a, b], 1)[:, :4][..., None].squeeze(-1)
        w = self.linear(z) * self.scale * factor
        return {"out": w, "both": (w.max(1).values, w.to(torch.float64), [w.softmax(-1)])}


X = torch.randn(2, 3, 8, 8)


def same(a, b):
    left, right = (torch.utils._pytree.tree_flatten(value) for value in (a, b))
    return left[1] == right[1] and all(map(torch.equal, left[0], right[0]))


def there_and_back(program, **more):
    file = io.BytesIO()
    torch.export.save(program, file, **more)
    file.seek(0)
    return file


@pytest.mark.parametrize("training", [False, True])
def test_a_program_comes_back(training):
    model = Model().train(training)
    program = torch.export.export(model, (X,), {"factor": 2.0})
    extra = {"a.txt": ""}
    loaded = torch.export.load(there_and_back(program, extra_files={"a.txt": "hi"}),
                               extra_files=extra)  # fmt: skip
    assert extra == {"a.txt": "hi"}
    assert str(loaded.graph_signature) == str(program.graph_signature)
    assert list(loaded.state_dict) == list(program.state_dict)
    assert all(isinstance(p, nn.Parameter) for p in loaded.parameters())
    assert same(loaded.module()(X, factor=2.0), program.module()(X, factor=2.0))
    with pytest.raises(AssertionError, match="Guard failed"):
        loaded.module()(X[:1], factor=2.0)


def test_frozen_parameters_stay_frozen():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    loaded = torch.export.load(there_and_back(torch.export.export(layer, (torch.ones(1, 2),))))
    assert [p.requires_grad for p in loaded.parameters()] == [True, False]


def test_other_files_are_refused(tmp_path):
    torch.save({"a": 1}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="no file of torch.export.save"):
        torch.export.load(tmp_path / "a.pt")
    with pytest.raises(TypeError, match="ExportedProgram"):
        torch.export.save(nn.Linear(1, 1), tmp_path / "b.pt")


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("call_function", "torch.load"), ("call_function", "torch.hub"),
        ("call_function", "torch.from_file"), ("call_function", "os.system"),
        ("call_function", "torch.manual_seed"), ("call_function", "operator.__call__"),
        ("call_function", "operator.call"), ("call_function", "operator.attrgetter"),
        ("call_function", "operator.methodcaller"), ("call_function", "operator.itemgetter"),
        ("call_method", "apply_"), ("call_method", "__class__"), ("call_method", "nothing"),
        ("call_method", "__deepcopy__"), ("call_method", "_make_subclass"),
        ("call_method", "register_post_accumulate_grad_hook"),
    ],
)  # fmt: skip
def test_a_file_calls_only_functions_of_tensors(op, name):
    file = there_and_back(torch.export.export(nn.ReLU(), (torch.ones(2),)))
    record = torch.load(file)
    record["nodes"] = [
        (n[0], op, name, *n[3:]) if n[1].startswith("call") else n for n in record["nodes"]
    ]
    changed = io.BytesIO()
    torch.save(record, changed)
    changed.seek(0)
    with pytest.raises(ValueError, match="which is no"):
        torch.export.load(changed)


def changed(change):
    """The file of a program whose record was changed."""
    record = torch.load(there_and_back(torch.export.export(nn.ReLU(), (torch.ones(2),))))
    change(record)
    file = io.BytesIO()
    torch.save(record, file)
    file.seek(0)
    return file


def called(*parts):
    def change(record):
        record["nodes"] = [
            (*n[:2], *parts, *n[2 + len(parts) :]) if n[1] == "call_function" else n
            for n in record["nodes"]
        ]

    return change


@pytest.mark.parametrize("name", ["__class__", "_storage", 3, {"node": "input_1"}])
def test_no_hidden_attribute_is_reached(name):
    """`x.__class__.__init__.__globals__` would lead to all functions of Python."""
    with pytest.raises(ValueError, match="attribute|damaged"):
        torch.export.load(changed(called("getattr", ({"node": "input"}, name))))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.pop("inputs"), lambda r: r.update(nodes=3), lambda r: r.update(frozen=5),
        lambda r: r.update(inputs=[("X", "a", None, None)]), lambda r: r.pop("extra_files"),
        lambda r: r["nodes"].pop(0), called(None), called(3), called("operator.neg", 5),
    ],
)  # fmt: skip
def test_damaged_records(change):
    with pytest.raises(ValueError, match="export.load"):
        torch.export.load(changed(change))


@pytest.mark.parametrize("version", [None, "x", 99])
def test_other_versions(version):
    with pytest.raises(NotImplementedError, match="version"):
        torch.export.load(changed(lambda r: r.update(version=version)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_damaged_directory_is_said_to_be_damaged(traced):
    file = io.BytesIO()
    torch.jit.save(traced[1], file)
    data = bytearray(file.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 7] = 0xFF  # the version that is needed to read it: not looked at
    assert same(torch.jit.load(io.BytesIO(data))(X), traced[0](X))
    for offset, byte in ((at, 0), (at + 50, 0xFF)):
        cut = bytearray(data)
        cut[offset] = byte
        with pytest.raises(torch.serialization.CorruptFileError):
            torch.jit.load(io.BytesIO(cut))


@pytest.fixture
def traced():
    model = Model().eval()
    with pytest.warns(DeprecationWarning):
        return model, torch.jit.trace(model, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_module_comes_back(traced, tmp_path):
    model, fast = traced
    assert isinstance(fast, torch.jit.ScriptModule) and isinstance(fast, Model)
    assert list(fast.state_dict()) == list(model.state_dict())
    fast.save(tmp_path / "m.pt")
    loaded = torch.jit.load(str(tmp_path / "m.pt"), map_location="cpu")
    assert isinstance(loaded, torch.jit.ScriptModule) and not loaded.training
    assert same(loaded(X), model(X))
    again = io.BytesIO()
    torch.jit.save(loaded, again)
    again.seek(0)
    assert same(torch.jit.load(again)(X), model(X))
    loaded(X)["out"].sum().backward()
    assert loaded.state_dict()["linear.weight"].shape == (2, 4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_function_comes_back():
    def f(a, b):
        return torch.sin(a) @ b

    a, b = torch.ones(2, 3), torch.ones(3, 2)
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(f, (a, b)), file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(a, b), f(a, b))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_has_no_graph_is_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="script keeps no inputs"):
        torch.jit.save(torch.jit.script(nn.Linear(1, 1)), tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "ts.pt", "w") as archive:
        archive.writestr("ts/constants.pkl", b"")
    with pytest.raises(NotImplementedError, match="TorchScript archive"):
        torch.jit.load(tmp_path / "ts.pt")
