"""Forming a group, and collectives in it."""

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import _functional_collectives as functional


def test_is_available_as_on_a_cpu_build_of_pytorch():
    assert dist.is_available() and dist.is_gloo_available() and not dist.is_nccl_available()
    assert dist.is_backend_available("gloo") and not dist.is_backend_available("nccl")
    assert not dist.is_initialized()


def test_launcher_variables_are_read(monkeypatch):
    values = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name in values:
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        with pytest.raises(ValueError, match=f"environment variable {name} expected, but not set"):
            dist.init_process_group("gloo")
        monkeypatch.setenv(name, value)
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo")
    dist.destroy_process_group()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(NotImplementedError, match="world_size=2, rank=0.*transport"):
        dist.init_process_group("gloo")
    assert not dist.is_initialized()


def test_other_ways_to_meet(tmp_path):
    for url in (
        "tcp://localhost:29500",
        f"file://{tmp_path}/meet",
        "tcp://h:1?rank=0&world_size=1",
    ):
        dist.init_process_group("cpu:gloo", init_method=url, rank=0, world_size=1)
        dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="No rendezvous handler for foo://"):
        dist.init_process_group("gloo", init_method="foo://", rank=0, world_size=1)
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl", init_method="tcp://h:1", rank=0, world_size=1)


def test_collectives_give_what_was_given(group):
    x, out = torch.arange(4.0), torch.zeros(4)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    dist.broadcast(x, src=0)
    dist.all_gather_into_tensor(out, x)
    assert out.tolist() == x.tolist() == [0, 1, 2, 3]
    parts = [torch.zeros(4)]
    work = dist.all_gather(parts, x, async_op=True)
    assert work.wait() and parts[0].tolist() == [0, 1, 2, 3]
    dist.all_to_all_single(out, x + 1)
    assert out.tolist() == [1, 2, 3, 4]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    with pytest.raises(ValueError, match="rank 3"):
        dist.broadcast(x, src=3)
    with pytest.raises(ValueError, match="Rank 1 is out of range"):
        dist.new_group([1])
    with pytest.raises(ValueError, match="2 tensors"):
        dist.all_gather([out, out], x)


def test_functional_collectives_let_gradients_through(group):
    x = torch.arange(3.0, requires_grad=True)
    y = functional.all_reduce(x, "sum", group) + dist.nn.functional.all_gather(x)[0]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="reduceOp='mul'"):
        functional.all_reduce(x, "mul", group)


def test_without_a_group_everything_says_so():
    for call in (dist.barrier, dist.get_rank, dist.get_world_size):
        with pytest.raises(ValueError, match="init_process_group"):
            call()


def test_collectives_check_what_they_are_given(group):
    x = torch.ones(3)
    with pytest.raises(TypeError, match="ReduceOp"):
        dist.all_reduce(x, op="sum")
    for call in (dist.all_reduce, lambda t: dist.broadcast(t, src=0)):
        with pytest.raises(TypeError, match=r"torch\.Tensor"):
            call([x])
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([x.double()], x)
    with pytest.raises(ValueError, match="different dtypes"):
        dist.reduce_scatter(x.double(), [x])


def test_a_timeout_is_a_timedelta():
    with pytest.raises(TypeError, match="datetime.timedelta"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=5)
    assert not dist.is_initialized()
