"""`Timer`: how long a statement takes, with all that it asks for computed.

In: a statement as text, or a callable under a name in `globals`. Out: `Measurement`, the seconds of
one run for each round. What waits is computed before the clock starts and before it stops.
"""

from __future__ import annotations

import enum
import statistics
import timeit
from collections.abc import Callable
from typing import Any

import rushlight as torch

timer = timeit.default_timer
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


class Language(enum.Enum):
    """The language of a statement; here only Python."""

    PYTHON = 0
    CPP = 1


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is best read, and its seconds."""
    return next(((name, size) for name, size in UNITS if t >= size), UNITS[-1])


class Measurement:
    """Times of rounds. raw_times: seconds of each round of `number_per_run` runs."""

    def __init__(
        self, number_per_run: int, raw_times: list[float], label: str | None = None,
        sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, stmt: str = "",
    ) -> None:  # fmt: skip
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.label, self.sub_label, self.description = label, sub_label, description
        self.env, self.num_threads, self.stmt = env, num_threads, stmt

    @property
    def times(self) -> list[float]:
        """Seconds of one run, for each round."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """From the lower to the upper quarter."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        parts = [self.label or self.stmt, self.sub_label]
        return ": ".join(part for part in parts if part)

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        lines = [f"<rushlight.utils.benchmark.Measurement of {self.title}>"]
        if len(self.times) > 1:
            lines.append(f"  Median: {self.median / size:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        lines.append(f"  {len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, "
                     f"{self.number_per_run} runs per measurement, {self.num_threads} thread"
                     f"{'s' if self.num_threads > 1 else ''}")  # fmt: skip
        return "\n".join(lines)


class Timer:
    """Measures a statement.

    >>> import rushlight as torch
    >>> from rushlight.utils.benchmark import Timer
    >>> t = Timer("x.sum()", globals={"x": torch.ones(8)})
    >>> t.timeit(3).median > 0
    True
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = Language.PYTHON,
    ) -> None:  # fmt: skip
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(f"Timer: language {language} is not supported, only Python")
        names = {"torch": torch, **(globals or {})}
        self._names = {"label": label, "sub_label": sub_label, "description": description,
                       "env": env, "num_threads": num_threads, "stmt": stmt}  # fmt: skip
        self.num_threads = num_threads
        # The last statement computes what the others have only recorded.
        names["_rushlight_flush"] = torch.flush
        setup = f"{global_setup}\n{setup}\n_rushlight_flush()"
        self._timer = timeit.Timer(f"{stmt}\n_rushlight_flush()", setup, timer, globals=names)

    def _run(self, number: int) -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            torch.set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One round of `number` runs, after two that are not counted."""
        self._run(2)
        return Measurement(number, [self._run(number)], **self._names)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Rounds of so many runs that the clock is small beside them, for `min_run_time` s."""
        number = self._block(min_run_time)
        return self._rounds(number, min_run_time, lambda times: False, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:  # fmt: skip
        """Rounds until their quarters are within `threshold` of the median."""
        number = self._block(0.05)

        def steady(times: list[float]) -> bool:
            found = Measurement(number, times)
            return len(times) > 4 and sum(times) > min_run_time and (
                found.iqr < threshold * found.median)  # fmt: skip

        return self._rounds(number, max_run_time, steady, callback)

    def _block(self, seconds: float) -> int:
        self._run(2)
        number = 1
        while (took := self._run(number)) < seconds / 1000 and number < 1 << 20:
            number = max(number * 2, int(number * seconds / 1000 / took))
        return number

    def _rounds(
        self, number: int, seconds: float, enough: Callable[[list[float]], bool], callback: Any
    ) -> Measurement:
        times: list[float] = []
        while sum(times) < seconds and not enough(times):
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, **self._names)
