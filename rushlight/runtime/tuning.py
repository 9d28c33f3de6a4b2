"""The fastest of some candidates, measured once per machine and kept.

In: a key, candidates by name; each measures itself. Out: `Tuned`. Always true: a candidate that
cannot be built or launched is left out with its reason; a damaged entry of the cache is a miss; an
entry that names no candidate of today is measured anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rushlight.base.errors import BackendError
from rushlight.runtime.cache import DiskCache

_SEEN: dict[str, Tuned] = {}
PREFIX = "tuned|"


@dataclass(frozen=True)
class Tuned:
    """`how`: "measured", "cached" or "only" (there was no choice). Times in milliseconds."""

    name: str
    how: str
    times: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def reasons(self) -> tuple[str, ...]:
        """For a Decision: how it was chosen, the times, what was left out."""
        times = (f"{name}: {ms:.3f} ms" for name, ms in self.times.items())
        left = (f"{name}: {why}" for name, why in self.refused.items())
        return (self.how, *times, *left)


def tune(
    key: str,
    candidates: Mapping[str, Callable[[], float]],
    disk: DiskCache | None = None,
    confirm: Callable[[str, str], bool] | None = None,
) -> Tuned:
    """The candidate whose call gives the least; BackendError when none can be measured. confirm:
    asked once for another one than the first: is it really faster (first, best)?"""
    found = _SEEN.get(key) or _from_disk(key, disk)
    if found is None or found.name not in candidates:
        found = _measured(candidates)
        first = next(iter(candidates))
        if confirm and first in found.times and found.name != first:
            found = found if confirm(first, found.name) else replace(found, name=first)
        if disk is not None:
            record = {"name": found.name, "times": found.times, "refused": found.refused}
            disk.put(PREFIX + key, json.dumps(record).encode())
    _SEEN[key] = Tuned(found.name, "cached", found.times, found.refused)
    return found


def _measured(candidates: Mapping[str, Callable[[], float]]) -> Tuned:
    times: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name, measure in candidates.items():
        try:
            times[name] = measure()
        except BackendError as error:
            refused[name] = str(error)
    if not times:
        raise BackendError(f"no candidate can be measured: {refused}")
    best = min(times, key=times.__getitem__)
    return Tuned(best, "measured" if len(candidates) > 1 else "only", times, refused)


def _from_disk(key: str, disk: DiskCache | None) -> Tuned | None:
    data = None if disk is None else disk.get(PREFIX + key)
    if data is None:
        return None
    try:
        record = json.loads(data)
        return Tuned(record["name"], "cached", dict(record["times"]), dict(record["refused"]))
    except (ValueError, KeyError, TypeError):
        return None


def forget() -> None:
    """What this process measured."""
    _SEEN.clear()
