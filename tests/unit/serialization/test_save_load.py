"""Trees of values and tensors come back equal, by file and by stream."""

import io
import math
import pickle
from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight.serialization import CorruptFileError, UnsupportedObjectError, safetensors
from rushlight.serialization.tree_file import write_tree


@pytest.fixture(params=["zip", "safetensors"])
def round_trip(request):
    write = torch.save if request.param == "zip" else write_tree

    def run(value, **kwargs):
        file = io.BytesIO()
        write(value, file)
        file.seek(0)
        return torch.load(file, **kwargs)

    return run


VALUES = [
    None,
    True,
    0,
    -(2**70),
    1.0,
    -0.0,
    0.1,
    1e308,
    float("inf"),
    float("-inf"),
    "",
    'quote " and \\ and \u00e9 \U0001f600 \ud800',
    b"",
    b"\x00\xff",
    3 + 4j,
    [],
    (),
    {},
    [1, (2, [3, ()])],
    {1: "a", "1": "b", None: 0, True and 2.5: 1, (1, 2): 3, "dict": {"tuple": []}},
    OrderedDict([("z", 1), ("a", 2)]),
    {"tensor": "not a tensor", "object": 3},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_round_trip(round_trip, value):
    got = round_trip(value)
    assert got == value and type(got) is type(value) and repr(got) == repr(value)


def test_nan_round_trips(round_trip):
    assert math.isnan(round_trip([float("nan")])[0])


def test_torch_values_round_trip(round_trip):
    values = [torch.float32, torch.device("cpu"), torch.Size([2, 3])]
    got = round_trip(values)
    assert got == values and isinstance(got[2], torch.Size)


DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_tensors_round_trip(round_trip, name, shape):
    tensor = torch.ones(shape).to(getattr(torch, name))
    got = round_trip({"x": tensor})["x"]
    assert got.dtype == tensor.dtype and got.shape == tensor.shape
    assert got.tolist() == tensor.tolist()


def test_not_contiguous_tensor_round_trips(round_trip):
    tensor = torch.arange(6.0).reshape(2, 3).t()
    assert round_trip(tensor).tolist() == tensor.tolist()
    assert round_trip(torch.ones(1).expand(4)).tolist() == [1, 1, 1, 1]


def test_one_tensor_object_stays_one(round_trip):
    shared = torch.ones(2)
    got = round_trip([shared, {"x": shared}, torch.ones(2)])
    assert got[0] is got[1]["x"] and got[0] is not got[2]


def test_tensors_over_one_memory_are_stored_once_and_share_again():
    tensor = torch.zeros(1000)
    file = io.BytesIO()
    torch.save({"a": tensor, "b": tensor.detach()}, file)
    assert len(file.getvalue()) < 6000
    file.seek(0)
    got = torch.load(file)
    assert got["a"] is not got["b"]
    got["a"][0] = 5
    assert got["b"][0].item() == 5


def test_equal_tensors_do_not_share(round_trip):
    got = round_trip([torch.zeros(2), torch.zeros(2)])
    got[0][0] = 5
    assert got[1].tolist() == [0, 0]


def test_parameters_and_flags_round_trip(round_trip):
    leaf = torch.ones(2, requires_grad=True)
    got = round_trip([torch.nn.Parameter(torch.ones(2), requires_grad=False), leaf])
    assert isinstance(got[0], torch.nn.Parameter) and not got[0].requires_grad
    assert got[1].requires_grad and not isinstance(got[1], torch.nn.Parameter)


def test_model_state_round_trips(round_trip):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    state = round_trip(model.state_dict())
    assert isinstance(state, OrderedDict)
    assert dict(state._metadata) == dict(model.state_dict()._metadata)
    other = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    other.load_state_dict(state)
    assert other[0].weight.tolist() == model[0].weight.tolist()


def test_optimizer_state_round_trips(round_trip):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = round_trip(optimizer.state_dict())
    assert list(state["state"]) == [0, 1]
    assert state["param_groups"][0]["betas"] == (0.9, 0.999)
    torch.optim.AdamW(model.parameters()).load_state_dict(state)


def test_random_state_round_trips(round_trip):
    state = torch.get_rng_state()
    assert round_trip(state).tolist() == state.tolist()


OTHERS = {"object": object(), "set": {1, 2}, "function": print, "range": [{"a": range(3)}]}


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
def test_other_objects_are_refused(value):
    with pytest.raises(UnsupportedObjectError, match="cannot save"):
        write_tree(value, io.BytesIO())


def test_refusal_names_the_place():
    with pytest.raises(UnsupportedObjectError, match="'model.layers.1'"):
        write_tree({"model": {"layers": [1, object()]}}, io.BytesIO())


def test_cycle_is_refused():
    value = []
    value.append(value)
    with pytest.raises(UnsupportedObjectError, match="contains itself"):
        write_tree(value, io.BytesIO())


def test_map_location(round_trip):
    tensor = torch.ones(2)
    places = ("cpu", torch.device("cpu"), {"cpu": "cpu"}, lambda x, device: x, lambda *_: None)
    for place in places:
        assert round_trip(tensor, map_location=place).tolist() == [1, 1]


def test_paths_and_mmap(tmp_path):
    torch.save({"x": torch.arange(10.0)}, str(tmp_path / "x.pt"))
    for mmap in (None, False, True):
        got = torch.load(tmp_path / "x.pt", mmap=mmap, weights_only=False)
        got["x"][0] = 7  # the file stays as it is
        assert got["x"].tolist() == [7, *range(1, 10)]
    with pytest.raises(ValueError, match="f must be a file"):
        torch.load(io.BytesIO(), mmap=True)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing")


def test_pickles_without_the_magic_number_are_refused():
    for protocol in range(2, 6):
        with pytest.raises((CorruptFileError, pickle.UnpicklingError)):
            torch.load(io.BytesIO(pickle.dumps({"a": 1}, protocol)))


def test_errors_of_map_location_are_the_callers(round_trip):
    def fail(x, device):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        round_trip(torch.ones(1), map_location=fail)
    with pytest.raises(RuntimeError, match="CUDA device"):
        round_trip(torch.ones(1), map_location="cuda")


def test_checksums_that_are_no_json_are_refused():
    file = io.BytesIO()
    own = {"rushlight.crc32": "{", "a": "b"}
    safetensors.write_tensors(file, {"x": torch.ones(1)}, own, is_checked=False)
    file.seek(0)
    with pytest.raises(CorruptFileError, match="checksums cannot be read"):
        torch.load(file)


def test_the_name_decides_the_format(tmp_path):
    for name, start in (("x.pt", b"PK"), ("x.safetensors", b"{"), ("x", b"PK")):
        torch.save({"a": torch.ones(2), "b": 3}, tmp_path / name)
        data = (tmp_path / name).read_bytes()
        assert data[:2] == start or data[8:9] == start
        assert torch.load(tmp_path / name)["a"].tolist() == [1, 1]


BAD_TREES = [
    "{",
    "{}",
    '{"unknown": 1}',
    '{"tensor": "missing", "object": 0}',
    '{"tensor": "x"}',
    '{"float": "text"}',
    '{"dict": 3}',
    '{"dict": [[[], 1]]}',
    '{"dict": [[1]]}',
    '{"dtype": "load"}',
    '{"size": "text"}',
    '{"bytes": "a"}',
    "[" * 100_000,
    '{"device": "nowhere"}',
    '{"tensor": "n", "object": 0, "requires_grad": true}',
    '{"tensor": "x", "object": [], "requires_grad": true}',
    '{"ordered": [], "metadata": {"x": 1}}',
    '{"complex": ["a", 1]}',
    '{"tuple": 3}',
]


@pytest.mark.parametrize("tree", BAD_TREES, ids=lambda tree: tree[:20])
def test_tree_of_another_writer_is_refused(tree):
    file = io.BytesIO()
    safetensors.write_tensors(
        file, {"x": torch.ones(1), "n": torch.arange(1)}, {"rushlight.tree": tree}
    )
    file.seek(0)
    with pytest.raises(CorruptFileError):
        torch.load(file)
