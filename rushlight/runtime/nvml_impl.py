"""NVIDIA's GPUs, asked through NVML (package nvidia-ml-py, extra: `cuda`).

In: the number of a GPU. Out: a `telemetry.Source`. Always true: the driver's library is looked for
when the first question is asked, and what is missing is named. **Tested with an imitation of NVML,
not run on a GPU.**
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.runtime.telemetry import unknown

FIX = "pip install 'rushlight[cuda]', and the driver of an NVIDIA GPU"


@dataclass(frozen=True)
class Nvml:
    """`library`: the module pynvml, or another in tests; None: find it when it is needed."""

    index: int = 0
    library: Any = None

    def name(self) -> str:
        found = self._ask("name", lambda lib, gpu: lib.nvmlDeviceGetName(gpu))
        return found.decode() if isinstance(found, bytes) else str(found)

    def total_memory(self) -> int:
        return int(self._ask("total_memory", _memory).total)

    def device_memory_used(self) -> int:
        return int(self._ask("device_memory_used", _memory).used)

    def utilization(self) -> float:
        """Percent of the time in which a kernel ran."""
        return float(self._ask("utilization", _rates).gpu)

    def memory_usage(self) -> float:
        """Percent of the time in which memory was read or written."""
        return float(self._ask("memory_usage", _rates).memory)

    def temperature(self) -> float:
        return float(self._ask("temperature", lambda lib, gpu: lib.nvmlDeviceGetTemperature(
            gpu, lib.NVML_TEMPERATURE_GPU)))  # fmt: skip

    def power_draw(self) -> float:
        milliwatts = self._ask("power_draw", lambda lib, gpu: lib.nvmlDeviceGetPowerUsage(gpu))
        return milliwatts / 1000.0

    def clock_rate(self) -> float:
        return float(self._ask("clock_rate", lambda lib, gpu: lib.nvmlDeviceGetClockInfo(
            gpu, lib.NVML_CLOCK_SM)))  # fmt: skip

    def _ask(self, question: str, how: Callable[[Any, Any], Any]) -> Any:
        library = self.library or _find(question)
        try:
            library.nvmlInit()
            return how(library, library.nvmlDeviceGetHandleByIndex(self.index))
        except library.NVMLError as error:
            unknown(question, f"NVML says: {error} (GPU {self.index}; {FIX})")


def _find(question: str) -> Any:
    if importlib.util.find_spec("pynvml") is None:
        unknown(question, f"nvidia-ml-py is not installed ({FIX})")
    return importlib.import_module("pynvml")


def _memory(library: Any, gpu: Any) -> Any:
    return library.nvmlDeviceGetMemoryInfo(gpu)


def _rates(library: Any, gpu: Any) -> Any:
    return library.nvmlDeviceGetUtilizationRates(gpu)
