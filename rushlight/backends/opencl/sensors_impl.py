"""What an OpenCL device says of itself.

OpenCL tells a name, the memory and the highest clock. How busy a device is, how warm, what it
draws, and how much of its memory is taken it does not tell; where the device is this machine's CPU
the host answers in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.backends.opencl.driver_impl import open_device
from rushlight.base.config import config
from rushlight.base.sensors import HOST, Sensors
from rushlight.compiler.target import Missing
from rushlight.runtime.telemetry import unknown


@dataclass(frozen=True)
class OpenCLSensors:
    """`device`: pyopencl's. `host`: who answers for a device that is the CPU."""

    device: Any
    is_cpu: bool
    host: Sensors = HOST

    def name(self) -> str:
        return str(self.device.name)

    def total_memory(self) -> int:
        return int(self.device.global_mem_size)

    def device_memory_used(self) -> int:
        return self._of_host("device_memory_used").device_memory_used()

    def utilization(self) -> float:
        return self._of_host("utilization").utilization()

    def temperature(self) -> float:
        return self._of_host("temperature").temperature()

    def power_draw(self) -> float:
        return self._of_host("power_draw").power_draw()

    def clock_rate(self) -> float:
        """MHz, the highest the device has: OpenCL does not tell the present one."""
        found = float(self.device.max_clock_frequency)
        if found > 0:
            return found
        return self._of_host("clock_rate").clock_rate()

    def last_level_cache_size(self) -> int:
        """Bytes of the cache in front of its memory."""
        found = int(self.device.global_mem_cache_size)
        return found or unknown("last_level_cache_size", f"{self.device.name} tells none")

    def memory_usage(self) -> float:
        """Percent of the time in which its memory was read or written."""
        return unknown("memory_usage", "OpenCL has no such query")

    def compute_units(self) -> int:
        return int(self.device.max_compute_units)

    def is_integrated(self) -> bool:
        """Does it share the host's memory?"""
        return bool(self.device.host_unified_memory)

    def _of_host(self, question: str) -> Sensors:
        if not self.is_cpu:
            unknown(question, f"OpenCL has no such query, and {self.device.name} is not the CPU")
        return self.host


def sensors() -> OpenCLSensors:
    """Those of the device that is used."""
    found = open_device(config.opencl_device, config.opencl_options)
    if isinstance(found, Missing):
        raise RuntimeError(f"no OpenCL device: {found.reason} ({found.fix})")
    return OpenCLSensors(found.device, bool(found.device.type & found.cl.device_type.CPU))
