"""A group of one process for tests that need one."""

import pytest

import rushlight as torch


@pytest.fixture
def group():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()
