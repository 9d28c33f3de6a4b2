"""Memory that cannot be had in a compiled call: an error, and all is as before the call."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.errors import OutOfMemoryError
from rushlight.runtime import allocator
from rushlight.serialization import storages
from rushlight.tensors import replay_room


class Training:
    """A model with what a step of it changes. Dropout: a step moves the random numbers, too."""

    def __init__(self, is_compiled: bool) -> None:
        torch.manual_seed(3)
        layers = [torch.nn.Linear(256, 256), torch.nn.Dropout(0.25), torch.nn.Linear(256, 10)]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.x, self.y = torch.randn(64, 256), torch.randint(0, 10, (64,))
        self.step = torch.compile(self.train) if is_compiled else self.train

    def train(self):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def values(self) -> list[np.ndarray]:
        states = [
            self.optimizer.state[p][name]
            for p in self.model.parameters()
            for name in ("exp_avg", "exp_avg_sq", "step")
        ]
        tensors = [*self.model.parameters(), *states]
        return [np.array(torch.as_tensor(t).detach().clone().numpy()) for t in tensors]


def equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.fixture
def no_memory(monkeypatch):
    """A switch: from now on so many more large blocks can be had, then none (None: all)."""
    left: list[int | None] = [None]
    make = allocator.DEFAULT._take

    def take(nbytes, capacity):
        if nbytes >= 4096 and left[0] is not None:
            if not left[0]:
                raise OutOfMemoryError(nbytes, 0)
            left[0] -= 1
        return make(nbytes, capacity)

    monkeypatch.setattr(allocator.DEFAULT, "_take", take)

    def switch(blocks: int | None) -> None:
        left[0] = blocks

    return switch


@pytest.mark.parametrize("warm", [1, 2, 3, 4, 5])
def test_a_compiled_step_that_fails_leaves_all_as_it_was(warm, no_memory, monkeypatch):
    monkeypatch.setattr(replay_room, "KEPT_ARENA_BYTES", 0)
    plain, training = Training(False), Training(True)
    for number in range(warm):
        for one in (plain, training):
            torch.manual_seed(number)
            one.step()
    torch.manual_seed(9)
    before = training.values()
    failures, numbers = 0, torch.get_rng_state()
    for blocks in range(40):
        no_memory(blocks)
        try:
            training.step()
        except MemoryError:
            no_memory(None)
            failures += 1
            assert equal(training.values(), before), blocks
            assert torch.equal(torch.get_rng_state(), numbers)
        else:
            break
    no_memory(None)
    assert failures or warm == 1  # that one is only recorded
    torch.manual_seed(9)
    plain.step()
    assert equal(training.values(), plain.values())


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_that_fits_into_no_memory_is_not_called_damaged(tmp_path, weights_only, monkeypatch):
    path = tmp_path / "weights.pt"
    torch.save({"w": torch.ones(300, 300)}, path)

    def nothing(*_):
        raise OutOfMemoryError(360000, 0)

    monkeypatch.setattr(storages, "own_array", nothing)
    with pytest.raises(OutOfMemoryError):
        torch.load(path, weights_only=weights_only)


def test_the_error_is_what_pytorch_and_what_python_code_catches():
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.OutOfMemoryError, MemoryError)
    with pytest.raises(MemoryError, match="out of memory: tried to allocate"):
        torch.ones(1 << 60, dtype=torch.int8).numpy()
