"""What the host says of itself: load, temperature, power, clock, memory.

In: the trees /proc and /sys (others in tests). Out: numbers. Always true: a value that cannot be
had is an error that says why, never 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.1


@dataclass(frozen=True)
class Sensors:
    """`root` holds proc and sys; `wait` is called between the two readings of a rate."""

    root: Path = Path("/")
    wait: Callable[[float], None] = time.sleep

    def utilization(self) -> float:
        """Percent of the time in which cores worked, over a tenth of a second."""
        busy, total = self._ticks()
        self.wait(SAMPLE_S)
        busy_after, total_after = self._ticks()
        if total_after == total:
            raise RuntimeError("utilization: /proc/stat did not move between two readings")
        return 100.0 * (busy_after - busy) / (total_after - total)

    def temperature(self) -> float:
        """Degrees Celsius of the hottest zone."""
        found = self._numbers("temperature", "sys/class/thermal", "thermal_zone*/temp")
        return max(found) / 1000.0

    def power_draw(self) -> float:
        """Watts of all packages, over a tenth of a second."""
        before = self._joules()
        began = time.perf_counter()
        self.wait(SAMPLE_S)
        elapsed = max(time.perf_counter() - began, SAMPLE_S)
        used = self._joules() - before
        if used < 0:
            raise RuntimeError("power_draw: the counter of energy wrapped around; ask again")
        return used / elapsed

    def clock_rate(self) -> float:
        """MHz, the mean of all cores."""
        folder = self.root / "sys/devices/system/cpu"
        found = [_number(p) / 1000.0 for p in sorted(folder.glob("cpu*/cpufreq/scaling_cur_freq"))]
        if not found:
            lines = self._lines("clock_rate", "proc/cpuinfo")
            found = [float(x.partition(":")[2]) for x in lines if x.startswith("cpu MHz")]
        if not found:
            raise RuntimeError(
                f"clock_rate: neither {folder}/cpu*/cpufreq nor 'cpu MHz' in /proc/cpuinfo"
            )
        return sum(found) / len(found)

    def device_memory_used(self) -> int:
        """Bytes that no program could get."""
        return self._memory("MemTotal") - self._memory("MemAvailable")

    def total_memory(self) -> int:
        return self._memory("MemTotal")

    def name(self) -> str:
        for line in self._lines("name", "proc/cpuinfo"):
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "CPU part"):
                return value.strip()
        raise RuntimeError("name: /proc/cpuinfo has neither 'model name' nor 'CPU part'")

    # reading ------------------------------------------------------------------------------------

    def _lines(self, what: str, place: str) -> list[str]:
        try:
            return (self.root / place).read_text().splitlines()
        except OSError as error:
            raise RuntimeError(f"{what}: /{place} cannot be read: {error.strerror}") from error

    def _ticks(self) -> tuple[int, int]:
        first = self._lines("utilization", "proc/stat")[0].split()
        numbers = [int(x) for x in first[1:9]]
        idle = numbers[3] + numbers[4]  # idle, and waiting for a disk
        return sum(numbers) - idle, sum(numbers)

    def _memory(self, key: str) -> int:
        for line in self._lines("memory", "proc/meminfo"):
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"memory: /proc/meminfo has no {key}")

    def _numbers(self, what: str, folder: str, pattern: str) -> list[float]:
        found = [_number(path) for path in sorted((self.root / folder).glob(pattern))]
        if not found:
            raise RuntimeError(f"{what}: this machine shows no sensor (/{folder}/{pattern})")
        return found

    def _joules(self) -> float:
        pattern = "intel-rapl:[0-9]/energy_uj"
        return sum(self._numbers("power_draw", "sys/class/powercap", pattern)) / 1e6


def _number(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError) as error:
        raise RuntimeError(f"{path} cannot be read: {error}") from error


HOST = Sensors()
