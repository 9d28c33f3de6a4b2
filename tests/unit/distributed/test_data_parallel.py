"""DistributedDataParallel in a group of one process."""

import pytest

import rushlight as torch


def test_data_parallel_of_one_process():
    layer = torch.nn.Linear(2, 1)
    with pytest.raises(ValueError, match="init_process_group"):
        torch.nn.parallel.DistributedDataParallel(layer)
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://x:1")
    try:
        model = torch.nn.parallel.DistributedDataParallel(layer, find_unused_parameters=True)
        with model.no_sync():
            model(torch.ones(1, 2)).sum().backward()
        assert layer.weight.grad.tolist() == [[1, 1]]
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
    finally:
        torch.distributed.destroy_process_group()
