"""Files go both ways between PyTorch and Rushlight; both refuse the same with the same words."""

import collections
import io
import os
import pickle

import numpy as np
import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from rushlight.serialization import ShardedCheckpoint  # noqa: E402
from tests.parity.common import assert_same_error  # noqa: E402

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128 float8_e4m3fn float8_e5m2"
).split()
HERE = [name for name in DTYPES if hasattr(torch, name)]


def plain(value):
    """The value as data that both sides agree on: dtypes, shapes, strides and numbers."""
    if isinstance(value, (real.Tensor, torch.Tensor)):
        kind = type(value).__name__
        wide = value.detach()
        numbers = wide.float() if "float8" in str(value.dtype) else wide
        where = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
        return kind, str(value.dtype), where, value.requires_grad, numbers.tolist()
    if isinstance(value, dict):
        items = [(plain(key), plain(item)) for key, item in value.items()]
        return type(value).__name__, items, plain(getattr(value, "_metadata", None))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return repr(value) if "torch" in str(type(value)) or "rush" in str(type(value)) else value


def values(t):
    """The same objects made with either library."""
    x = t.arange(12.0).reshape(3, 4)
    y = t.nn.Parameter(t.ones(2), requires_grad=False)
    return collections.OrderedDict(
        whole=x,
        turned=x.t(),
        part=x[1:, ::2],
        row=x[1],
        spread=t.ones(1).expand(2, 3),
        empty=t.zeros(0),
        empty_3d=t.zeros(2, 0, 3),
        scalar=t.tensor(2.5),
        leaf=t.ones(2, requires_grad=True),
        parameters=[t.nn.Parameter(t.ones(2)), y, y],
        plain=[None, True, 0, -3, 2**80, 1.5, float("inf"), "text\u00e9", b"ab", (1, (2,))],
        more={1: "a", (1, 2): {"b": bytearray(b"x")}, "set": {1}, "complex": 3 + 4j},
        torch=[t.float32, t.bfloat16, t.Size([2, 3]), t.device("cpu"), t.device("cuda", 1)],
        counter=collections.Counter("aab"),
    )


def read_real(data, **options):
    return real.load(io.BytesIO(data), weights_only=True, **options)


def written(t, value, **options):
    file = io.BytesIO()
    t.save(value, file, **options)
    return file.getvalue()


def test_pytorch_reads_our_files():
    assert plain(read_real(written(torch, values(torch)))) == plain(values(real))


def test_empty_bytes_that_we_write_load_everywhere():
    """PyTorch's own name the class bytes, which its reader refuses."""
    assert (
        read_real(written(torch, [b""])) == torch.load(io.BytesIO(written(torch, [b""]))) == [b""]
    )


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])
def test_we_read_files_of_pytorch(is_zip):
    data = written(real, values(real), _use_new_zipfile_serialization=is_zip)
    assert plain(torch.load(io.BytesIO(data))) == plain(values(torch))
    back = torch.load(io.BytesIO(data), weights_only=False)
    assert plain(back) == plain(values(torch))


@pytest.mark.parametrize("name", HERE)
def test_every_dtype_goes_both_ways(name):
    ours = torch.tensor([0.0, 1.0, 2.0]).to(getattr(torch, name))
    theirs = real.tensor([0.0, 1.0, 2.0]).to(getattr(real, name))
    assert plain(read_real(written(torch, ours))) == plain(theirs)
    for is_zip in (True, False):
        data = written(real, theirs, _use_new_zipfile_serialization=is_zip)
        assert plain(torch.load(io.BytesIO(data))) == plain(ours)


@pytest.mark.parametrize("mmap", [False, True])
def test_tensors_share_memory_on_the_other_side(tmp_path, mmap):
    for writer, reader in ((torch, real), (real, torch)):
        path = tmp_path / f"{reader.__name__}.pt"
        x = writer.arange(6.0)
        writer.save({"x": x, "view": x.reshape(2, 3).t(), "other": writer.arange(6.0)}, path)
        got = reader.load(path, mmap=mmap)
        got["x"][1] = 9
        assert got["view"].tolist() == [[0, 3], [9, 4], [2, 5]]
        assert got["other"].tolist() == [0, 1, 2, 3, 4, 5]
        assert reader.load(path, mmap=mmap)["x"].tolist() == [0, 1, 2, 3, 4, 5]


def odd_views(t):
    """Memory seen as other numbers than it was made of."""
    c = t.tensor([1 + 2j, 3 - 4j, 5j])
    return {
        "bytes": t.arange(4.0)[1:].view(t.uint8),
        "wide": t.arange(16, dtype=t.uint8)[8:].view(t.float64),
        "ints": t.ones(3).view(t.int32),
        "complex": [c, c[::2], c.reshape(3, 1).t()],
        "real": t.tensor([1 + 2j, 3 - 4j]).real,
        "imag": t.tensor([1 + 2j, 3 - 4j]).imag,
        "pairs": t.view_as_real(t.tensor([1 + 2j])),
        "short": [t.arange(3).to(t.uint16), t.arange(3).to(t.uint32)[1:]],
    }


def test_odd_views_go_both_ways():
    for writer, reader in ((torch, real), (real, torch), (torch, torch)):
        got = reader.load(io.BytesIO(written(writer, odd_views(writer))))
        assert plain(got) == plain(odd_views(reader))


def test_one_memory_of_two_dtypes_is_refused_alike():
    def save(t):
        x = t.ones(2)
        t.save([x, x.view(t.int32)], io.BytesIO())

    assert_same_error(lambda: save(torch), lambda: save(real))


def test_conjugates_and_negatives_go_both_ways():
    for writer, reader in ((torch, real), (real, torch), (torch, torch)):
        x = writer.tensor([1 + 2j, 5j])
        data = written(writer, [x, x.conj(), x.clone().conj().imag])
        got = reader.load(io.BytesIO(data))
        assert got[1].tolist() == [1 - 2j, -5j] and got[2].tolist() == [-2, -5]
        got[0][0] = 7j
        assert got[1].tolist() == [-7j, -5j] and got[1].is_conj()


def test_pytorch_finds_our_storages_by_calculation():
    """As its map_location="meta" does: our archive is laid out like its own."""
    data = written(torch, [torch.arange(5), torch.zeros(0), torch.ones(3), torch.arange(1000)])
    for tensor in read_real(data, map_location="meta"):
        at = tensor.untyped_storage()._checkpoint_offset
        if tensor.numel() == 1000:
            assert data[at : at + 8000] == np.arange(1000).tobytes()
        assert tensor.numel() == 0 or at % 64 == 0


def trained(t):
    """A model and optimizers after a step."""
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3), t.nn.Linear(3, 1))
    for parameter in model.parameters():
        t.nn.init.constant_(parameter, 0.5)
    optimizers = [
        t.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True),
        t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    ]
    model(t.arange(8.0).reshape(4, 2)).square().sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    return model, optimizers


def test_states_of_models_and_optimizers_go_both_ways():
    for writer, reader in ((torch, real), (real, torch)):
        model, optimizers = trained(writer)
        state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}
        got = reader.load(io.BytesIO(written(writer, state)))
        other, fresh = trained(reader)
        assert plain(got["model"])[2] == plain(other.state_dict())[2]  # the versions of modules
        other.load_state_dict(got["model"])
        for optimizer, saved in zip(fresh, got["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        expected = model.eval()(writer.from_numpy(x)).tolist()
        np.testing.assert_allclose(other.eval()(reader.from_numpy(x)).tolist(), expected, 1e-5)


class Evil:
    def __init__(self, call, *args):
        self.call = call, args

    def __reduce__(self):
        return self.call


Point = collections.namedtuple("Point", "x y")
REFUSED = {
    "a class": Point(1, 2),
    "a builtin": Evil(print, "x"),
    "a blocked module": Evil(os.system, "true"),
    "a range": range(3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse_with_the_same_words(name):
    data = written(real, REFUSED[name])
    for file in (data, written(torch, REFUSED[name])):
        with pytest.raises(pickle.UnpicklingError) as theirs:
            real.load(io.BytesIO(file))
        with pytest.raises(pickle.UnpicklingError) as ours:
            torch.load(io.BytesIO(file))
        assert str(ours.value) == str(theirs.value)
    for t in (real, torch):
        found = t.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
        assert len(found) == 1, found


def test_safe_globals_load_a_namedtuple_on_both_sides():
    for writer, reader in ((torch, real), (real, torch)):
        with reader.serialization.safe_globals([Point]):
            got = reader.load(io.BytesIO(written(writer, Point(1, writer.ones(2)))))
        assert isinstance(got, Point) and got.y.tolist() == [1, 1]


def test_attributes_of_tensors_go_both_ways():
    for writer, reader in ((torch, real), (real, torch)):
        tensor, parameter = writer.ones(2), writer.nn.Parameter(writer.ones(2))
        tensor.note, parameter.note = "x", {"y": 1}
        got = reader.load(io.BytesIO(written(writer, [tensor, parameter])))
        assert (got[0].note, got[1].note) == ("x", {"y": 1})


@pytest.mark.parametrize("place", ["cuda", "cuda:1", "nowhere", {"cpu": "cuda"}], ids=str)
def test_places_that_are_not_there_are_refused_alike(place):
    data = written(real, real.ones(2))
    assert_same_error(
        lambda: torch.load(io.BytesIO(data), map_location=place),
        lambda: real.load(io.BytesIO(data), map_location=place),
    )


def test_arguments_are_refused_alike():
    for call in (
        lambda t: t.load(io.BytesIO(written(real, 1)), mmap=True),
        lambda t: t.load(io.BytesIO(written(real, 1)), pickle_module=pickle, weights_only=True),
        lambda t: t.save(1, 3),
    ):
        assert_same_error(lambda call=call: call(torch), lambda call=call: call(real))


def test_files_without_checksums_load():
    real.serialization.set_crc32_options(False)
    try:
        data = written(real, {"a": real.ones(2)})
    finally:
        real.serialization.set_crc32_options(True)
    assert torch.load(io.BytesIO(data))["a"].tolist() == [1, 1]


def test_other_byte_order_loads():
    """A file of a big-endian machine, made from one of PyTorch."""
    import zipfile

    swapped = io.BytesIO()
    x = real.tensor([1.5, 2.5])
    with zipfile.ZipFile(io.BytesIO(written(real, x))) as old, zipfile.ZipFile(swapped, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif name.endswith("data/0"):
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            new.writestr(name, data)
    for load in (torch.load, real.load):
        swapped.seek(0)
        assert load(swapped).tolist() == [1.5, 2.5]


def test_torchscript_archives_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    program = real.jit.trace(real.nn.Linear(2, 1), real.ones(1, 2))
    real.jit.save(program, str(path))
    for t in (real, torch):
        with pytest.raises(RuntimeError, match="with TorchScript archives passed to"):
            t.load(path)


def test_sharded_files_of_pytorch_load(tmp_path):
    import json

    real.save({"a": real.ones(2)}, tmp_path / "1.bin")
    real.save({"b": real.zeros(2)}, tmp_path / "2.bin", _use_new_zipfile_serialization=False)
    index = {"weight_map": {"a": "1.bin", "b": "2.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    state = ShardedCheckpoint(tmp_path)
    assert state["a"].tolist() == [1, 1] and state["b"].tolist() == [0, 0]
