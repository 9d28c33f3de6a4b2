"""The table of a backend: what is supported, what is refused and why, what failed.

In: outcomes. Out: text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from rushlight.testing.conformance.run import Outcome

STATUSES = ("supported", "refused", "failed")
SHOWN = 40


class Report:
    """Counts outcomes as they come."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.outcomes: list[Outcome] = []

    def add(self, outcomes: Iterable[Outcome]) -> None:
        self.outcomes += [outcome for outcome in outcomes if outcome.status in STATUSES]

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)

    def text(self) -> str:
        """The table, the reasons of what is refused, and what failed."""
        lines = [f"conformance of {self.backend}: {len(self.outcomes)} cases"]
        lines += self._table()
        reasons = Counter(o.text for o in self.outcomes if o.status == "refused")
        lines += [f"  refused {n:5d}  {text}" for text, n in reasons.most_common(SHOWN)]
        failed = [o for o in self.outcomes if o.status == "failed"]
        lines += [f"  failed  {o.case.name} {o.case.dtype}: {o.text[:300]}" for o in failed[:SHOWN]]
        if len(failed) > SHOWN:
            lines.append(f"  and {len(failed) - SHOWN} more")
        return "\n".join(lines)

    def _table(self) -> list[str]:
        rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for outcome in self.outcomes:
            rows[outcome.case.group, outcome.case.dtype or "any"][outcome.status] += 1
        header = f"  {'cases':<20}" + "".join(f"{s:>11}" for s in STATUSES)
        lines = [header]
        total: Counter[str] = Counter()
        for (group, dtype), counts in sorted(rows.items()):
            lines.append(_row(f"{group} {dtype}", counts))
            total.update(counts)
        share = 100 * total["supported"] / max(1, sum(total.values()))
        return [*lines, _row("all", total) + f"   {share:.1f} % supported"]


def _row(name: str, counts: Counter[str]) -> str:
    return f"  {name:<20}" + "".join(f"{counts[s]:>11}" for s in STATUSES)
