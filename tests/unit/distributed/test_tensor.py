"""Meshes and DTensors of one process."""

import copy
import io

import pytest

import rushlight as torch
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    zeros,
)
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


@pytest.fixture
def mesh(group):
    return init_device_mesh("cpu", (1,))


def test_meshes(group):
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert repr(mesh) == "DeviceMesh((dp=1, tp=1), 'cpu', stride=((), ()))"
    assert mesh["dp"].mesh_dim_names == ("dp",) and mesh["dp"] != mesh["tp"]
    assert mesh.get_local_rank("tp") == 0 and mesh.get_coordinate() == (0, 0)
    assert mesh._flatten("all").size() == 1 and mesh["all"].ndim == 1
    assert mesh.get_group("dp").size() == 1
    with pytest.raises(RuntimeError, match="bigger than default world size 1"):
        init_device_mesh("cpu", (2,))
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        mesh["zz"]
    with pytest.raises(RuntimeError, match="same length"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a",))
    with pytest.raises(RuntimeError, match="mesh_dim"):
        mesh.get_group()
    with DeviceMesh("cpu", [0]) as entered:
        assert distribute_tensor(torch.ones(2)).device_mesh is entered


def test_placements_of_results_are_pytorchs(mesh):
    d = distribute_tensor(torch.arange(6.0).reshape(3, 2), mesh, [Shard(0)])
    r = distribute_tensor(torch.ones(2, 3), mesh)
    cases = [
        (d * 2, Shard(0)), (d.sum(), Partial()), (d.mean(0), Partial("avg")), (d.T, Shard(1)),
        (d @ d.T, Shard(0)), (d.relu(), Shard(0)), (d.reshape(6), Shard(0)), (d[0], Replicate()),
        (d.softmax(0), Replicate()), (torch.cat([d, d]), Replicate()), (r @ r.T, Replicate()),
        (d.sum(1), Shard(0)), (d.clone(), Shard(0)), (r.T @ distribute_tensor(
            torch.ones(2, 4), mesh, [Shard(1)]), Shard(1)),
    ]  # fmt: skip
    for number, (result, placement) in enumerate(cases):
        assert result.placements == (placement,), number
    partial = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    assert (partial + partial).placements == (Partial(),)
    assert (partial * partial).placements == (Replicate(),)
    assert repr(Shard(1)) == "Shard(dim=1)" and str(Partial("avg")) == "P(avg)"


def test_values_gradients_and_refusals(mesh):
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    d = distribute_tensor(x, mesh, [Shard(-1)])
    assert d.is_leaf and d.requires_grad and d.placements == (Shard(1),)
    (d * d).sum().backward()
    assert x.grad is None and isinstance(d.grad, DTensor)
    assert d.grad.full_tensor().tolist() == [[0, 2], [4, 6], [8, 10]]
    local = torch.ones(2, requires_grad=True)
    (DTensor.from_local(local, mesh, [Replicate()]).to_local() * 3).sum().backward()
    assert local.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="mixed torch.Tensor and DTensor"):
        d + torch.ones(3, 2)
    for call in (d.numpy, d.tolist):
        with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
            call()
    with pytest.raises(ValueError, match="same length as"):
        distribute_tensor(torch.ones(2), mesh, [Replicate(), Replicate()])
    with pytest.raises(ValueError, match="Sharding dim 5"):
        distribute_tensor(torch.ones(2), mesh, [Shard(5)])
    with pytest.raises(RuntimeError, match="leaf tensors"):
        distribute_tensor(x * 2, mesh)
    assert zeros(2, 3, device_mesh=mesh, placements=[Shard(0)]).shape == (2, 3)


def test_copies_and_files(mesh):
    d = torch.nn.Parameter(distribute_tensor(torch.ones(2), mesh, [Shard(0)]))
    assert isinstance(d, DTensor) and isinstance(d, torch.nn.Parameter)
    copied = copy.deepcopy(d)
    assert isinstance(copied, torch.nn.Parameter) and copied.placements == (Shard(0),)
    file = io.BytesIO()
    torch.save({"d": d}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)["d"]
    assert isinstance(loaded, DTensor) and loaded.full_tensor().tolist() == [1, 1]


def test_parallel_layers_compute_the_same_and_learn(mesh):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    plain = copy.deepcopy(model)
    x = torch.randn(5, 4)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    assert model[0].weight.placements == (Shard(0),) and model[2].weight.placements == (Shard(1),)
    for each in (model, plain):
        step = torch.optim.AdamW(each.parameters(), lr=0.1)
        for _ in range(2):
            each(x).square().sum().backward()
            step.step()
            step.zero_grad()
    torch.testing.assert_close(model[0].weight.full_tensor(), plain[0].weight)
    torch.testing.assert_close(model(x), plain(x))


def test_distribute_module(mesh):
    layer = distribute_module(torch.nn.BatchNorm1d(3), mesh)
    assert all(isinstance(t, DTensor) for t in (layer.weight, layer.running_mean))


def test_meshes_of_different_axes_do_not_mix(mesh):
    square = init_device_mesh("cpu", (1, 1))
    a = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
    b = distribute_tensor(torch.ones(2, 3), square, [Shard(0), Shard(1)])
    for call in (lambda: a + b, lambda: b @ a.t(), lambda: torch.cat([a, b])):
        with pytest.raises(RuntimeError, match="different meshes"):
            call()
