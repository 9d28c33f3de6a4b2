"""torch.cuda, torch.xpu, torch.mps, torch.accelerator: no without a device, the truth with one."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.base import devices
from rushlight.base.config import config
from rushlight.compiler.target import Missing
from rushlight.cuda import gpu
from rushlight.serialization import packages

OPENCL = not isinstance(find_backend("opencl").find(), Missing)
needs_opencl = pytest.mark.skipif(not OPENCL, reason="no OpenCL device here")
KINDS = ("cuda", "xpu", "mps")


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch) -> str:
    """A device of this type that PoCL stands in for."""
    if not OPENCL:
        pytest.skip("no OpenCL device here")
    monkeypatch.setattr(devices, "_HERE", dict(devices._HERE))
    monkeypatch.setattr("rushlight.engine.devices.DEVICE_BACKENDS", {request.param: "opencl"})
    why = devices.DEVICES.why_missing
    monkeypatch.setattr(
        devices.DEVICES, "why_missing",
        staticmethod(lambda asked: "" if asked == request.param else why(asked)),
    )  # fmt: skip
    return request.param


@pytest.fixture
def nowhere(monkeypatch) -> None:
    monkeypatch.setattr(devices.DEVICES, "why_missing", staticmethod(lambda kind: "a reason"))


@pytest.mark.parametrize("name", [*KINDS, "accelerator"])
def test_without_a_device_the_answer_is_no(name: str, nowhere) -> None:
    module = getattr(torch, name)
    assert not module.is_available() and module.device_count() == 0
    with pytest.raises(
        (AssertionError, RuntimeError), match="not compiled|not there|none is avail"
    ):
        module.synchronize()
    assert torch.accelerator.current_accelerator() is None


def test_the_module_says_what_is_there(kind: str) -> None:
    module = getattr(torch, kind)
    assert module.is_available() and module.device_count() == 1
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
    assert torch.accelerator.current_accelerator() == torch.device(kind)
    x = torch.ones(3, device=kind)
    assert [x.is_cuda, x.is_xpu, x.is_mps] == [kind == one for one in KINDS]
    assert x.get_device() == 0 and torch.ones(3).get_device() == -1
    assert x.type() == f"torch.{kind}.FloatTensor" and torch.ones(1).type() == "torch.FloatTensor"
    moved = torch.ones(2).type(f"torch.{kind}.DoubleTensor")
    assert moved.device.type == kind and moved.dtype is torch.float64
    assert torch.ones(2, dtype=torch.int8).type_as(x).device.type == kind


@pytest.mark.parametrize("kind", ["cuda", "xpu"], indirect=True)
def test_tensors_and_modules_move_to_the_gpu_that_is_named(kind: str) -> None:
    x, layer = torch.ones(2), torch.nn.Linear(2, 1)
    for place in ((), (0,), (f"{kind}:0",), (torch.device(kind),)):
        assert getattr(x, kind)(*place).device.type == kind
        assert getattr(layer, kind)(*place).weight.device.type == kind
    with pytest.raises(RuntimeError, match="there is one device of this type"):
        getattr(x, kind)(1)
    with pytest.raises(RuntimeError, match=f"must be {kind} device"):
        getattr(x, kind)("cpu")
    assert torch._C._get_accelerator() == torch.device(kind)


def test_loaders_that_pin_memory_run(kind: str) -> None:
    loader = torch.utils.data.DataLoader(torch.arange(6.0), batch_size=3, pin_memory=True)
    assert [batch.to(kind).tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5]]


def test_without_a_device_nothing_is_pinned(nowhere) -> None:
    with pytest.raises(RuntimeError, match="none is available"):
        torch.ones(2).pin_memory()


def test_synchronize_computes_what_is_pending(kind: str) -> None:
    y = (torch.ones(3, device=kind) * 2).sum()
    assert y._storage.node.leaf != "buffer"
    getattr(torch, kind).synchronize()
    assert y._storage.node.leaf == "buffer"
    z = y * 2
    torch.accelerator.synchronize()
    assert z._storage.node.leaf == "buffer"


def test_events_measure_the_work_between_them(kind: str) -> None:
    event = getattr(torch, kind).Event
    begin, end, plain = event(enable_timing=True), event(enable_timing=True), event()
    begin.record()
    y = (torch.ones(300, device=kind) * 3).cumsum(0)
    end.record()
    assert y._storage.node.leaf == "buffer" and begin.elapsed_time(end) > 0
    assert begin.query() and isinstance(begin, event)
    with pytest.raises(ValueError, match="enable_timing=True"):
        begin.elapsed_time(plain)
    with pytest.raises(ValueError, match="must be recorded"):
        begin.elapsed_time(event(enable_timing=True))


@pytest.mark.parametrize("kind", ["cuda", "xpu"], indirect=True)
def test_streams_are_one_order(kind: str) -> None:
    module = getattr(torch, kind)
    stream = module.Stream()
    with module.stream(stream):
        y = torch.ones(3, device=kind) + 1
    assert not stream.query()
    stream.synchronize()
    assert stream.query() and y._storage.node.leaf == "buffer"
    module.current_stream().wait_stream(stream)
    stream.record_event(module.Event()).synchronize()
    module.set_device(0)
    module.set_device(f"{kind}:0")
    for wrong in (1, f"{kind}:7"):
        with pytest.raises(RuntimeError, match="there is one device of this type"):
            module.set_device(wrong)
    with pytest.raises(ValueError, match=f"Expected a {kind} device"):
        module.set_device("cpu")


def test_memory_is_counted_or_an_error(kind: str) -> None:
    module = torch.mps if kind == "mps" else getattr(torch, kind)
    now = module.current_allocated_memory if kind == "mps" else module.memory_allocated
    before = now()
    x = torch.ones(1 << 18, device=kind)
    module.synchronize()
    assert now() - before >= 1 << 20
    if kind != "mps":
        assert module.max_memory_allocated() >= module.memory_allocated() > 0
        assert module.memory_reserved() >= module.memory_allocated()
        assert module.memory_stats()["allocated_bytes.all.peak"] == module.max_memory_allocated()
        with pytest.raises(NotImplementedError, match="not counted"):
            module.max_memory_reserved()
    del x


def test_seeds_repeat_the_draws_on_the_device(kind: str) -> None:
    module = getattr(torch, kind)
    module.manual_seed(11)
    first = torch.randn(5, device=kind).tolist()
    state = module.get_rng_state()
    second = torch.randn(5, device=kind).tolist()
    module.manual_seed(11)
    assert torch.randn(5, device=kind).tolist() == first != second
    module.set_rng_state(state)
    assert torch.randn(5, device=kind).tolist() == second


def test_what_is_not_there_says_so_and_not_that_there_is_no_device(kind: str) -> None:
    name = {"cuda": "CUDAGraph", "xpu": "get_device_capability", "mps": "compile_shader"}[kind]
    with pytest.raises(NotImplementedError, match=f"{kind}.{name} is not supported, though"):
        getattr(getattr(torch, kind), name)()


def test_autocast_and_scalers_are_on_where_the_device_is(kind: str) -> None:
    x = torch.ones(4, 4, device=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast(kind, dtype=torch.bfloat16):
            assert (x @ x).dtype is torch.bfloat16 and torch.is_autocast_enabled(kind)
            assert not torch.is_autocast_enabled("cpu")
            assert torch.get_autocast_dtype(kind) is torch.bfloat16
            with torch.autocast(kind, enabled=False):
                assert (x @ x).dtype is torch.float32
            assert (x @ x).dtype is torch.bfloat16
    assert (x @ x).dtype is torch.float32 and not torch.is_autocast_enabled(kind)
    assert torch.get_autocast_dtype(kind) is torch.float16
    assert torch.amp.GradScaler(kind).is_enabled()


def test_without_the_device_autocast_is_off_and_says_so(nowhere) -> None:
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"):
        context = torch.autocast("cuda")
    with torch.autocast("cpu"), context:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    assert not torch.amp.GradScaler("cuda").is_enabled()


def test_what_only_a_gpu_has_is_an_error_in_the_interpreter() -> None:
    with config.override(triton_interpret=True):
        assert gpu.get_device_name() == gpu.INTERPRETER and gpu.get_arch_list() == []
        for ask in (gpu.get_device_capability, gpu.get_device_properties, gpu.mem_get_info):
            with pytest.raises(RuntimeError, match=f"{ask.__name__}: Triton's interpreter runs"):
                ask()


def saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_files_and_copies_are_on_the_device_again(kind: str) -> None:
    layer = torch.nn.Linear(3, 2).to(kind)
    x = torch.arange(6.0, device=kind).reshape(2, 3)
    file = saved({"x": x, "row": x[1], **layer.state_dict()})
    name = b"mps" if kind == "mps" else f"{kind}:0".encode()
    assert name in file.getvalue()
    got = torch.load(file)
    assert {value.device.type for value in got.values()} == {kind}
    got["row"].zero_()  # memory is shared as it was
    assert got["x"].tolist() == [[0, 1, 2], [0, 0, 0]]
    file.seek(0)
    assert {v.device.type for v in torch.load(file, map_location="cpu").values()} == {"cpu"}
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert made.weight.device.type == kind
        assert made.weight.tolist() == layer.weight.tolist()
    assert pickle.loads(pickle.dumps(x, 2)).device.type == kind
    assert x.storage().device.type == x.untyped_storage().device.type == kind
    assert x.untyped_storage().cpu().device.type == "cpu"


@needs_opencl
def test_a_file_of_a_device_that_is_not_there_says_how_to_read_it(monkeypatch) -> None:
    file = saved(torch.ones(2, device="opencl"))
    monkeypatch.setattr(devices, "_HERE", {"cpu": devices.CPU, "meta": devices.META})
    monkeypatch.setattr(devices.DEVICES, "why_missing", staticmethod(lambda kind: "no driver"))
    with pytest.raises(RuntimeError, match="no driver.*map_location=torch.device.'cpu'."):
        torch.load(file)
    file.seek(0)
    assert torch.load(file, map_location="cpu").tolist() == [1, 1]


def test_tensors_without_values_are_saved_and_pickled() -> None:
    x = torch.empty(3, 2, device="meta").t()
    layer = torch.nn.Linear(2, 3, device="meta")
    got = torch.load(saved({"x": x, **layer.state_dict()}))
    assert all(value.is_meta for value in got.values())
    assert got["x"].shape == (2, 3) and got["x"].stride() == x.stride()
    assert pickle.loads(pickle.dumps(layer)).weight.is_meta
    assert pickle.loads(pickle.dumps(x)).shape == (2, 3)


def test_registered_packages_name_places_in_files(monkeypatch) -> None:
    monkeypatch.setattr(packages, "REGISTERED", [])
    seen = []
    torch.serialization.register_package(
        5, lambda storage: "moon" if storage.nbytes() == 12 else None,
        lambda storage, place: seen.append(place) or (storage if place == "moon" else None),
    )  # fmt: skip
    file = saved({"a": torch.ones(3), "b": torch.ones(2)})
    assert b"moon" in file.getvalue()
    monkeypatch.setattr("rushlight.serialization.map_location.REGISTERED", packages.REGISTERED)
    assert torch.load(file)["a"].tolist() == [1, 1, 1] and "moon" in seen
