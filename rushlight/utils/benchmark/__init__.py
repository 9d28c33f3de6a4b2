"""`torch.utils.benchmark`: times of statements, and of variants side by side."""

from rushlight import names as _names
from rushlight.utils.benchmark.compare import Compare
from rushlight.utils.benchmark.timer import Language, Measurement, Timer, select_unit, timer

__getattr__ = _names.getattr_of(__name__)
__all__ = ["Compare", "Language", "Measurement", "Timer", "select_unit", "timer"]
