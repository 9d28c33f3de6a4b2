"""torch.nn.parallel.comm on the CPU, and the modules of nn.parallel by name."""

import importlib

import pytest

import rushlight as torch
from rushlight.nn.parallel import comm

X = torch.arange(6.0).reshape(3, 2)
CPUS = ["cpu", "cpu"]


def test_broadcast_copies_all_but_the_first():
    first, second = comm.broadcast(X, CPUS)
    assert first is X and second.tolist() == X.tolist()
    second.add_(1)
    assert X[0, 0] == 0
    out = [torch.zeros(3, 2), torch.zeros(3, 2)]
    found = comm.broadcast(X, out=out)
    assert found[1] is out[1] and out[1].tolist() == X.tolist()
    assert [len(row) for row in comm.broadcast_coalesced([X, X], CPUS)] == [2, 2]


def test_sums():
    assert comm.reduce_add([X, X, X], "cpu").tolist() == (3 * X).tolist()
    sums = comm.reduce_add_coalesced([[X, X * 2], [X, X]])
    assert [s.tolist() for s in sums] == [(2 * X).tolist(), (3 * X).tolist()]
    with pytest.raises(ValueError, match="input 1 has invalid size"):
        comm.reduce_add([X, X[0]])


def test_parts_and_back():
    parts = comm.scatter(X, CPUS)
    assert [p.shape[0] for p in parts] == [2, 1]
    assert comm.gather(parts).tolist() == X.tolist()
    assert [p.shape[1] for p in comm.scatter(X, CPUS, [1, 1], dim=1)] == [1, 1]
    out = torch.empty(3, 2)
    assert comm.gather(parts, out=out) is out and out.tolist() == X.tolist()
    into = [torch.empty(1, 2), torch.empty(2, 2)]
    assert comm.scatter(X, out=into)[1].tolist() == X[1:].tolist()


def test_what_is_refused():
    for call in (
        lambda: comm.broadcast(X, ["cuda:0"]), lambda: comm.scatter(X, ["cpu", "cuda"]),
        lambda: comm.gather([X], 0, "cuda"), lambda: comm.reduce_add([X], "cuda:0"),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="only the CPU"):
            call()
    with pytest.raises(RuntimeError, match="Exactly one"):
        comm.broadcast(X)
    with pytest.raises(RuntimeError, match="sum up"):
        comm.scatter(X, CPUS, [1, 1])


@pytest.mark.parametrize("name", ["data_parallel", "parallel_apply", "replicate", "scatter_gather"])
def test_modules_leave_the_functions_of_the_same_name(name):
    module = importlib.import_module(f"rushlight.nn.parallel.{name}")
    function = getattr(torch.nn.parallel, name)
    assert callable(function) == (name != "scatter_gather")
    assert function in (getattr(module, name, None), module)
