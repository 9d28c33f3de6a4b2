"""Sensors of the host, over recorded trees: values, and errors that say what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.sensors import Sensors

STAT = ("cpu  100 0 100 700 100 0 0 0 0 0\n", "cpu  140 0 120 720 120 0 0 0 0 0\n")


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_load_is_what_was_worked_between_two_readings(tmp_path) -> None:
    root = written(tmp_path, proc__stat=STAT[0])
    sensors = Sensors(root, lambda seconds: (root / "proc/stat").write_text(STAT[1]) and None)
    assert sensors.utilization() == pytest.approx(60.0)


def test_counters_that_stand_still_are_an_error(tmp_path) -> None:
    sensors = Sensors(written(tmp_path, proc__stat=STAT[0]), lambda seconds: None)
    with pytest.raises(RuntimeError, match="did not move"):
        sensors.utilization()


def test_power_is_energy_over_time(tmp_path) -> None:
    folder = tmp_path / "sys/class/powercap/intel-rapl:0"
    folder.mkdir(parents=True)
    (folder / "energy_uj").write_text("1000000")
    sensors = Sensors(
        tmp_path, lambda seconds: (folder / "energy_uj").write_text("3000000") and None
    )
    assert sensors.power_draw() == pytest.approx(20.0)


def test_temperature_clock_and_memory(tmp_path) -> None:
    root = written(
        tmp_path, sys__class__thermal__thermal_zone0__temp="41000\n",
        sys__class__thermal__thermal_zone1__temp="55500\n",
        proc__cpuinfo="model name\t: Some CPU\ncpu MHz\t\t: 2000.0\ncpu MHz\t\t: 3000.0\n",
        proc__meminfo="MemTotal: 1000 kB\nMemAvailable: 400 kB\n",
    )  # fmt: skip
    sensors = Sensors(root)
    assert sensors.temperature() == 55.5
    assert sensors.clock_rate() == 2500.0
    assert (sensors.device_memory_used(), sensors.total_memory()) == (600 * 1024, 1000 * 1024)
    assert sensors.name() == "Some CPU"


def test_cores_that_say_their_own_clock(tmp_path) -> None:
    root = written(tmp_path, sys__devices__system__cpu__cpu0__cpufreq__scaling_cur_freq="1500000")
    assert Sensors(root).clock_rate() == 1500.0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("utilization", "/proc/stat cannot be read"), ("temperature", "no sensor"),
        ("power_draw", "no sensor"), ("clock_rate", "cannot be read"),
        ("device_memory_used", "/proc/meminfo"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_error_and_never_0(name: str, why: str, tmp_path) -> None:
    with pytest.raises(RuntimeError, match=why):
        getattr(Sensors(tmp_path), name)()


def test_the_public_functions_are_about_this_machine() -> None:
    assert 0 < torch.cpu.device_memory_used() < torch.cpu.get_device_properties().total_memory
    assert torch.cpu.get_memory_allocated is torch.cpu.device_memory_used
    assert torch.cpu.get_device_utilization is torch.cpu.utilization
    assert torch.cpu.get_device_properties().name
