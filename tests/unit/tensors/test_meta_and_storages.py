"""Tensors of the device "meta", and storages."""

import pytest

import rushlight as torch


def test_meta_tensors_have_shapes_only():
    x = torch.empty(1 << 20, 1 << 20, device="meta")
    y = (x @ x.T).softmax(1)[:3].sum(0, keepdim=True)
    assert y.shape == (1, 1 << 20) and y.device.type == "meta" and y.is_meta
    with pytest.raises(NotImplementedError, match="no data"):
        y[0, 0].item()


def test_modules_on_meta_get_values_later():
    layer = torch.nn.Linear(4, 2, device="meta")
    assert all(p.is_meta for p in layer.parameters())
    layer.to_empty(device="cpu")
    torch.nn.init.ones_(layer.weight), torch.nn.init.zeros_(layer.bias)
    assert layer(torch.ones(1, 4)).tolist() == [[4.0, 4.0]]


def test_default_device_meta():
    with torch.device("meta"):
        assert torch.zeros(2).is_meta and torch.nn.Linear(2, 2).weight.is_meta
    assert not torch.zeros(2).is_meta


def test_assigning_a_state_dict_to_a_meta_module():
    layer = torch.nn.Linear(2, 1, device="meta")
    state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    layer.load_state_dict(state, assign=True)
    assert layer(torch.ones(1, 2)).item() == 2


def test_storages_of_views_are_one():
    x = torch.arange(6.0)
    row = x.view(2, 3)[1]
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert row.storage_offset() == 3 and x.untyped_storage().nbytes() == 24
    assert x.clone().untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_typed_storages():
    x = torch.tensor([1, 2, 3])
    storage = x.storage()
    assert len(storage) == 3 and storage.tolist() == [1, 2, 3] and storage.dtype is torch.int64
    assert storage[1] == 2


def test_set_and_what_is_refused():
    x, y = torch.zeros(2), torch.arange(4.0)
    x.set_(y)
    y[0] = 9
    assert x.tolist() == [9, 1, 2, 3]
    with pytest.raises(NotImplementedError, match="resize_ is not supported"):
        torch.zeros(3).untyped_storage().resize_(0)
