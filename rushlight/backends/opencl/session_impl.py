"""Runs plans on an OpenCL device.

A device that shares the host's memory works on the plan's buffers where they are; for any other,
inputs are copied there before, results back after, and temporary values stay there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rushlight.backends.cfamily.run import GroupPlan, Launch, sizes_at
from rushlight.backends.opencl.driver_impl import Driver, require_driver
from rushlight.base.dtypes import uint8
from rushlight.compiler.host_calls import view
from rushlight.compiler.target import Caps, Plan

_LOCK = threading.Lock()  # arguments are set on kernel objects, which all runs share


class OpenCLSession:
    """One run. Commands go to one queue, in order."""

    def __init__(
        self,
        driver: Driver,
        pointers: Sequence[int],
        nbytes: Sequence[int],
        words: np.ndarray,
        plan: Plan,
    ) -> None:
        self.driver, self.cl, self.queue = driver, driver.cl, driver.queue
        self.pointers, self.nbytes, self.plan = pointers, nbytes, plan
        self.flags = driver.cl.mem_flags
        self._sizes = sizes_at(pointers, nbytes)
        # A result may lie where an input does: what is there must be copied whichever comes first.
        specs = zip(plan.buffers, map(int, pointers), strict=True)
        self._filled = {address for spec, address in specs if spec.kind == "input"}
        self._memory: dict[int, Any] = {}
        self._by_address: dict[int, Any] = {}
        self._words = self._copied(words)
        self._status_host = np.zeros(1, np.int64)
        self._status = self._copied(self._status_host)

    def _copied(self, array: np.ndarray) -> Any:
        flags = self.flags.READ_WRITE | self.flags.COPY_HOST_PTR
        return self.cl.Buffer(self.driver.context, flags, hostbuf=array)

    def _host(self, number: int) -> np.ndarray:
        return view(int(self.pointers[number]), uint8, self.nbytes[number])

    def memory(self, number: int) -> Any:
        """The device's buffer for a buffer of the plan. Those at one address share one."""
        if number not in self._memory:
            address, nbytes = int(self.pointers[number]), self.nbytes[number]
            key = address if nbytes and address else -1 - number
            if key not in self._by_address:
                self._by_address[key] = self._new(number, nbytes)
            self._memory[number] = self._by_address[key]
        return self._memory[number]

    def _new(self, number: int, nbytes: int) -> Any:
        flags, context = self.flags, self.driver.context
        if nbytes == 0:
            return self.cl.Buffer(context, flags.READ_WRITE, 8)
        address = int(self.pointers[number])
        host = view(address, uint8, self._sizes[address])
        if self.driver.shared:
            return self.cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)
        if address in self._filled:
            return self._copied(host)
        return self.cl.Buffer(context, flags.READ_WRITE, host.nbytes)

    def launch(self, launch: Launch) -> None:
        arguments = [self.memory(number) for number in launch.buffers]
        first, threads = np.int64(launch.words.start), launch.kernel.threads
        with _LOCK:
            launch.function.set_args(*arguments, self._words, first, self._status)
            self.cl.enqueue_nd_range_kernel(
                self.queue, launch.function, (launch.groups * threads,), (threads,)
            )

    def status(self) -> int:
        self.cl.enqueue_copy(self.queue, self._status_host, self._status)
        return int(self._status_host[0])

    def to_host(self, numbers: Iterable[int]) -> None:
        """The host's memory is what the device has."""
        for number in numbers:
            if number not in self._memory or not self.nbytes[number]:
                continue
            if self.driver.shared:
                self._mapped(number, self.cl.map_flags.READ)
            else:
                self.cl.enqueue_copy(self.queue, self._host(number), self._memory[number])

    def to_device(self, numbers: Iterable[int]) -> None:
        """The device sees what the host wrote."""
        for number in numbers:
            if not self.nbytes[number]:
                continue
            memory = self.memory(number)
            if not self.driver.shared:
                self.cl.enqueue_copy(self.queue, memory, self._host(number))

    def _mapped(self, number: int, flags: Any) -> None:
        size = self.nbytes[number]
        mapped, _ = self.cl.enqueue_map_buffer(
            self.queue, self._memory[number], flags, 0, (size,), np.uint8
        )
        mapped.base.release(self.queue)


def load(plan: Plan, caps: Caps) -> GroupPlan:
    driver = require_driver()

    def begin(
        pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> OpenCLSession:
        return OpenCLSession(driver, pointers, nbytes, words, plan)

    return GroupPlan(plan, begin)
