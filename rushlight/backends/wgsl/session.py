"""Runs plans: buffers are copied to the device before a run, results back after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rushlight.backends.cfamily.run import GroupPlan, Launch, sizes_at
from rushlight.backends.wgsl.driver_impl import USAGE, open_device
from rushlight.base.dtypes import uint8
from rushlight.compiler.host_calls import view
from rushlight.compiler.target import Caps, Plan


class WgpuSession:
    def __init__(
        self, pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> None:
        self.device = open_device()
        self.pointers, self.nbytes, self.plan = pointers, nbytes, plan
        self._memory: dict[int, Any] = {}
        self._sizes = sizes_at(pointers, nbytes)
        self._words = self._filled(words.view(np.uint8))
        self._status = self._filled(np.zeros(16, np.uint8))

    def _filled(self, data: np.ndarray) -> Any:
        whole = np.zeros(max(8, -(-data.size // 8) * 8), np.uint8)
        whole[: data.size] = data
        return self.device.create_buffer_with_data(data=whole, usage=USAGE)

    def _host(self, number: int) -> np.ndarray:
        return view(int(self.pointers[number]), uint8, self.nbytes[number])

    def memory(self, number: int) -> Any:
        """Buffers of the plan at one address are one buffer of the device."""
        key = int(self.pointers[number]) if self.nbytes[number] else -1 - number
        if key not in self._memory:
            size = self._sizes[key] if self.nbytes[number] else 0
            self._memory[key] = self._filled(view(key, uint8, size))
        return self._memory[key]

    def launch(self, launch: Launch) -> None:
        first, count = 8 * launch.words.start, launch.words.stop - launch.words.start
        bound = [{"buffer": self.memory(number)} for number in launch.buffers]
        bound.append({"buffer": self._words, "offset": first, "size": max(8, 8 * count)})
        bound.append({"buffer": self._status})
        group = self.device.create_bind_group(
            layout=launch.function.get_bind_group_layout(0),
            entries=[{"binding": i, "resource": one} for i, one in enumerate(bound)],
        )
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(launch.function)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(launch.groups)
        compute.end()
        self.device.queue.submit([encoder.finish()])

    def status(self) -> int:
        return int(np.frombuffer(self.device.queue.read_buffer(self._status), np.int64)[0])

    def to_host(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.nbytes[number]:
                data = self.device.queue.read_buffer(self.memory(number))
                self._host(number)[:] = np.frombuffer(data, np.uint8)[: self.nbytes[number]]

    def to_device(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            key = int(self.pointers[number]) if self.nbytes[number] else -1 - number
            self._memory.pop(key, None)


def load(plan: Plan, caps: Caps) -> GroupPlan:
    return GroupPlan(plan, WgpuSession)
