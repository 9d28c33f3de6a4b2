"""Names that packages for PyTorch reach for, beside the public ones."""

import dataclasses
import importlib

import pytest

import rushlight
import rushlight as torch
from rushlight.names.known import stand_in_names
from rushlight.names.refused import stand_in_reason


@pytest.fixture
def as_torch():
    with rushlight.install_as_torch():
        yield


@pytest.mark.parametrize("name", ["cudnn", "cuda", "mps", "mkldnn", "opt_einsum"])
def test_switches_are_modules_too(as_torch, name):
    module = importlib.import_module(f"torch.backends.{name}")
    module.enabled = False
    assert getattr(torch.backends, name) is module
    assert getattr(torch.backends, name).enabled is False
    module.enabled = True


def test_modules_of_parts_that_are_not_there_have_their_inner_names():
    run = importlib.import_module("rushlight.distributed.pipelining")
    assert not isinstance(1, run.PipelineStage)
    inner = importlib.import_module("rushlight.distributed.rpc")
    with pytest.raises(NotImplementedError, match="groups of more than one"):
        inner.RRef()
    assert not hasattr(inner, "NoSuchName")
    with pytest.raises(ImportError):
        importlib.import_module("rushlight.distributed.no_such_module")


def test_modules_below_them_are_found_as_attributes():
    quantization = torch.ao.quantization
    assert quantization is importlib.import_module("rushlight.ao.quantization")
    with pytest.raises(NotImplementedError, match="no quantized dtypes"):
        quantization.quantize_dynamic(torch.nn.Linear(2, 2))


def test_questions_about_them_are_answered():
    rpc = importlib.import_module("rushlight.distributed.rpc")
    assert rpc.is_available() is False
    proxy = importlib.import_module("rushlight.fx.experimental.proxy_tensor")
    assert proxy.get_proxy_mode() is None


def test_dtypes_that_are_not_there_can_be_compared():
    table = {torch.qint8: 1, torch.float32: 2}
    assert table[torch.float32] == 2 and torch.qint8 != torch.int8
    assert str(torch.quint8) == "torch.quint8"
    with pytest.raises(NotImplementedError):
        torch.qint8()


def test_the_package_has_the_name_of_pytorch_while_it_stands_in():
    assert rushlight.__name__ == "rushlight"
    with rushlight.install_as_torch():
        assert importlib.import_module("torch").__name__ == "torch"
    assert rushlight.__name__ == "rushlight"


def test_functorch_is_there(as_torch):
    functorch = importlib.import_module("functorch")
    layer = torch.nn.Linear(2, 3)
    function, params = functorch.make_functional(layer)
    x = torch.ones(1, 2)
    assert torch.equal(function(params, x), layer(x))
    models = [torch.nn.Linear(2, 3) for _ in range(3)]
    function, params, buffers = functorch.combine_state_for_ensemble(models)
    found = functorch.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    torch.testing.assert_close(found, torch.stack([model(x) for model in models]))


def test_a_dtype_is_no_dataclass():
    assert not dataclasses.is_dataclass(torch.float32)


def test_return_types():
    assert type(torch.max(torch.ones(2, 2), 0)) is torch.return_types.max
    assert not hasattr(torch.return_types, "nothing")


def test_helpers_of_utils():
    utils = importlib.import_module("rushlight._utils")
    parts = [torch.ones(2, 3), torch.zeros(4)]
    flat = utils._flatten_dense_tensors(parts)
    assert [p.shape for p in utils._unflatten_dense_tensors(flat, parts)] == [(2, 3), (4,)]
    groups = list(utils._take_tensors([*parts, torch.ones(2, dtype=torch.int64)], 30))
    assert [[t.numel() for t in group] for group in groups] == [[6], [4], [2]]
    try:
        raise KeyError("x")
    except KeyError:
        wrapped = utils.ExceptionWrapper(where="in a test")
    with pytest.raises(KeyError, match="in a test"):
        wrapped.reraise()


def test_scatter_and_gather():
    places = importlib.import_module("rushlight.nn.parallel.scatter_gather")
    args, kwargs = places.scatter_kwargs((torch.arange(4), 7), {"k": torch.ones(2)}, ["cpu"] * 2)
    assert [a[0].tolist() for a in args] == [[0, 1], [2, 3]] and kwargs[1]["k"].tolist() == [1.0]
    assert places.gather([a[0] for a in args], "cpu").tolist() == [0, 1, 2, 3]


def test_named_member_accessor():
    inner = importlib.import_module("rushlight.nn.utils._named_member_accessor")
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    found = inner.NamedMemberAccessor(net)
    before, missing = found.swap_tensors_dict({"0.weight": torch.zeros(1, 2)})
    assert missing == [] and net[0].weight.sum() == 0
    found.set_tensors_dict(before)
    assert net[0].weight is before["0.weight"]


def test_weak_keys_go_with_their_tensors():
    weak = importlib.import_module("rushlight.utils.weak")
    a, b = torch.ones(1), torch.ones(1)
    table = weak.WeakIdKeyDictionary({a: 1, b: 2})
    assert table[a] == 1 and table[b] == 2 and len(table) == 2
    del a
    assert list(table.values()) == [2]


def test_associative_scan_and_loops():
    loops = importlib.import_module("rushlight._higher_order_ops")
    a, b = torch.rand(3, 7), torch.rand(3, 7, requires_grad=True)

    def join(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    state, steps = torch.zeros(3), []
    for i in range(7):
        state = state * a[:, i] + b[:, i]
        steps.append(state)
    want = torch.stack(steps, 1)
    for mode in ("pointwise", "generic"):
        found = loops.associative_scan(join, (a, b), 1, combine_mode=mode)[1]
        torch.testing.assert_close(found, want)
    (grad,) = torch.autograd.grad(found.sum(), b)
    torch.testing.assert_close(grad, torch.autograd.grad(want.sum(), b)[0])
    back = loops.associative_scan(torch.add, torch.arange(4), 0, reverse=True)
    assert back.tolist() == [6, 6, 5, 3]
    carry, ys = loops.scan(lambda c, x: (c + x, c), torch.tensor(0), torch.arange(3), reverse=True)
    assert carry == 3 and ys.tolist() == [3, 2, 0]


def test_lowrank_factors():
    torch.manual_seed(0)
    wide = torch.rand(6, 2) @ torch.rand(2, 9)
    for matrix in (wide, wide.T):
        u, s, v = torch.svd_lowrank(matrix, q=3)
        torch.testing.assert_close(u @ s.diag() @ v.T, matrix)
    u, s, v = torch.pca_lowrank(wide, q=2)
    torch.testing.assert_close(u @ s.diag() @ v.T, wide - wide.mean(0), atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="q"):
        torch.svd_lowrank(wide, q=7)


def test_star_imports_bring_the_main_class():
    for module, names in (
        ("utils.data.dataloader", "DataLoader default_collate default_convert get_worker_info"),
        ("optim.optimizer", "Optimizer register_optimizer_step_post_hook"),
        ("utils.weak", "WeakIdKeyDictionary WeakIdRef"),
        ("nn.parallel.scatter_gather", "gather scatter"),
        ("__config__", "show parallel_info"),
    ):
        space = {}
        exec(f"from rushlight.{module} import *", space)
        assert set(names.split()) <= set(space), module


def test_modules_of_distributed_have_every_name_that_pytorchs_have():
    """What is there is real; the rest can be imported, and refuses when it is called."""
    missing = []
    for theirs, names in stand_in_names().items():
        if not stand_in_reason(theirs) or theirs.startswith("torch.distributed.debug."):
            continue
        module = importlib.import_module("rushlight" + theirs.removeprefix("torch"))
        missing += [f"{theirs}.{n}" for n in names if n[:2] != "__" and not hasattr(module, n)]
    assert not missing
    loader = importlib.import_module("rushlight.distributed.checkpoint.state_dict_loader")
    assert loader.load is torch.distributed.checkpoint.load
    with pytest.raises(NotImplementedError, match="_load_state_dict is not supported"):
        loader._load_state_dict({}, None)
