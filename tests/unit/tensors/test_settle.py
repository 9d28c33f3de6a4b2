"""Bytes of a file seen as numbers: the same values and aliases, without putting bytes together."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.engine.realize import PROGRAMS


@pytest.fixture
def path(tmp_path):
    """A file with 3 bytes, then 24 float32 numbers at byte 8."""
    values = np.arange(24, dtype=np.float32)
    (tmp_path / "weights").write_bytes(bytes(8) + values.tobytes() + bytes(5))
    return tmp_path / "weights"


def weight(path, start=8, count=24):
    """As the safetensors package makes a tensor."""
    storage = torch.UntypedStorage.from_file(path, shared=False, nbytes=path.stat().st_size)
    data = torch.asarray(storage[start : start + 4 * count], dtype=torch.uint8)
    return data.view(dtype=torch.float32).reshape(-1, 4)


@pytest.mark.parametrize("is_parameter", [True, False])
def test_a_weight_that_nobody_else_sees_becomes_numbers(path, is_parameter):
    x = torch.nn.Parameter(weight(path)) if is_parameter else weight(path)
    assert (x @ x.t()).shape == (6, 6)
    assert x._view is None and x._storage.node.dtype is torch.float32
    assert x.tolist() == np.arange(24.0).reshape(6, 4).tolist()


def test_it_is_trained_and_the_file_stays(path):
    x, before = torch.nn.Parameter(weight(path)), path.read_bytes()
    optimizer = torch.optim.SGD([x], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
    assert x.tolist() == (np.arange(24.0) - 1.5).reshape(6, 4).tolist()
    assert path.read_bytes() == before
    assert weight(path).tolist() == np.arange(24.0).reshape(6, 4).tolist()


def test_other_tensors_over_the_bytes_still_see_what_is_written(path):
    data = torch.asarray(torch.UntypedStorage.from_file(path, nbytes=104)[8:104])
    x = data.view(torch.float32).reshape(6, 4)
    assert x.sum().item() == 276
    x += 1
    assert data.view(torch.float32).tolist() == list(np.arange(24.0) + 1)
    data.zero_()
    assert x.sum().item() == 0


def test_a_view_of_the_weight_sees_what_is_written_into_it(path):
    x = weight(path)
    row = x[1]
    x.mul_(2)
    assert row.tolist() == [8, 10, 12, 14]
    row.zero_()
    assert x[1].tolist() == [0, 0, 0, 0]
    assert x[2].tolist() == [16, 18, 20, 22]


def test_numbers_at_an_odd_place(path):
    path.write_bytes(bytes(3) + np.arange(24, dtype=np.float32).tobytes())
    x = torch.nn.Parameter(weight(path, start=3))
    assert x.sum().item() == 276
    assert x._view is not None


def test_part_of_the_bytes_stays_a_view(path):
    data = torch.asarray(torch.UntypedStorage.from_file(path, nbytes=104)[:])
    x = data[8:].view(torch.float32)
    del data
    assert x.tolist() == list(range(24))


def test_in_a_compiled_call(path):
    net = torch.nn.Linear(4, 6, bias=False)
    net.weight = torch.nn.Parameter(weight(path))
    call = torch.compile(lambda x: net(x))
    for n in (1.0, 2.0):
        expected = np.arange(24.0).reshape(6, 4).sum(1) * n
        assert call(torch.full((1, 4), n)).tolist() == [expected.tolist()]
    with torch.no_grad():
        net.weight.add_(1)
    assert call(torch.ones(1, 4)).tolist() == [(np.arange(24.0).reshape(6, 4).sum(1) + 4).tolist()]


def test_a_loaded_network_needs_no_more_programs_than_another(path):
    def programs(make):
        net = torch.nn.Linear(4, 6, bias=False)
        net.weight = torch.nn.Parameter(make())
        before = PROGRAMS.compiled
        net(torch.ones(3, 4)).sum().item()
        return PROGRAMS.compiled - before

    programs(lambda: torch.tensor(np.ones((6, 4), np.float32)))
    assert programs(lambda: weight(path)) == 0
