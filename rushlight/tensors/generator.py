"""Random state: a seed and a count of random ops. Numbers are Philox of (seed, count, element)."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.devices import META, find_device
from rushlight.base.dtypes import int64, uint8
from rushlight.engine.capture import open_session
from rushlight.ir.node import Node, scalar_node
from rushlight.tensors.interop import look
from rushlight.tensors.storage import data_node
from rushlight.tensors.tensor import Tensor, new_tensor

DEFAULT_SEED = 67280421310721
MASK = (1 << 64) - 1


def _signed(value: int) -> int:
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


class Generator:
    """torch.Generator. Each random op takes the next offset. The numbers of a seed are the same on
    all devices."""

    def __init__(self, device: Any = "cpu") -> None:
        self._place = find_device(device)
        if self._place is META:
            raise RuntimeError("META device type not an accelerator.")
        self._seed, self._offset = DEFAULT_SEED, 0
        self._lock = threading.Lock()

    @property
    def device(self) -> Any:
        return self._place

    def manual_seed(self, seed: int) -> Generator:
        seed = int(seed)
        self._shown("a random seed is set")
        if not -(1 << 63) <= seed < (1 << 64):
            raise ValueError("Overflow when unpacking long")
        self._seed, self._offset = seed & MASK, 0
        return self

    def seed(self) -> int:
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        self._shown("a random seed is read")
        return self._seed

    def get_state(self) -> Tensor:
        raw = np.array([self._seed, self._offset], np.uint64).view(np.uint8)
        state = new_tensor(data_node(raw, uint8))
        session = open_session()
        if session is not None:  # only `set_state` may use it there
            session.note_draw(self, self._seed, self._offset)
            session.private.add(state._storage.node)
            state.__dict__["_mark"] = (session.token, self, self._offset, state._storage.node)
        return state

    def set_state(self, new_state: Tensor) -> Generator:
        if not isinstance(new_state, Tensor) or new_state.dtype is not uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.numel() != 16:
            raise RuntimeError("RNG state is wrong size")
        session = open_session()
        mark = new_state.__dict__.get("_mark")
        if session is not None and mark is not None:
            if mark[0] is session.token and mark[1] is self and mark[3] is new_state._storage.node:
                self._offset = mark[2]
                return self
        seed, offset = np.ascontiguousarray(look(new_state)).view(np.uint64)
        self._seed, self._offset = int(seed), int(offset)
        return self

    def clone_state(self) -> Generator:
        made = Generator(self._place)
        made._seed, made._offset = self._seed, self._offset
        return made

    def _shown(self, what: str) -> None:
        session = open_session()
        if session is not None:
            session.refuse(what)

    def _next(self) -> int:
        """The offset of the next random op."""
        session = open_session()
        if session is not None:
            session.note_draw(self, self._seed, self._offset)
        with self._lock:
            offset = self._offset
            self._offset += 1
        return offset

    def draw(self, count: int) -> tuple[int, int]:
        """The seed, and the first of `count` offsets that are used up."""
        with self._lock:
            offset = self._offset
            self._offset += count
        return _signed(self._seed), offset

    def _key(self) -> int:
        return _signed(self._seed)

    def bits(self, shape: tuple) -> Node:
        """32 random bits per element. A replay reads seed and offset from the generator again."""
        seed = scalar_node(self._key(), int64, self._key)
        offset = scalar_node(self._next(), int64, self._next)
        return ops.random_bits.node(seed, offset, shape)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    return default_generator.manual_seed(seed)


def seed() -> int:
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    default_generator.set_state(new_state)
