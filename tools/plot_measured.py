"""The picture of README.md's table: how many times as fast as PyTorch, a dot for each figure.

In: the table under "Measured". Out: docs/measured.svg. Always true: the picture shows what the
table says and nothing else, so whoever changes a figure runs this again; a test compares the two.

    python tools/plot_measured.py
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "measured.svg"
# More of these is better; of everything else (times, memory, losses) less is.
RATES = ("GFLOP/s", "Gop/s", "tokens/s")
# Rows that say nothing of speed or memory.
LEFT_OUT = "validation loss"
TICKS = (0.5, 1, 2, 4, 8, 16, 32)
WIDTH, LEFT, RIGHT, ROW, TOP = 900, 430, 20, 20, 40
LONGEST = 62


def rows(text: str) -> list[tuple[str, list[float]]]:
    """(what, times as good as PyTorch for each figure) of the table's rows that have both."""
    table = text.split("| what | Rushlight | PyTorch", 1)[1].split("\n\n", 1)[0]
    found = []
    for line in table.splitlines()[2:]:
        what, ours, theirs = (cell.strip() for cell in line.strip("|").split("|"))
        mine, others = numbers(ours), numbers(theirs)
        if not mine or not others or LEFT_OUT in what:
            continue
        others = others * len(mine) if len(others) == 1 else others
        is_rate = any(unit in ours for unit in RATES)
        pairs = zip(mine, others, strict=True)
        found.append((what, [a / b if is_rate else b / a for a, b in pairs]))
    return found


def numbers(cell: str) -> list[float]:
    """Its figures, in seconds where they are times; what is in brackets is no figure."""
    plain = re.sub(r"\(.*?\)", "", cell)
    texts = re.findall(r"(\d+(?:\.\d+)?)(?:\s*(ms|s)\b)?", plain)
    return [float(number) * (1e-3 if unit == "ms" else 1) for number, unit in _spread(texts)]


def _spread(texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """In "208 / 198 ms" the unit is that of both."""
    unit, found = "", []
    for number, own in reversed(texts):
        unit = own or unit
        found.append((number, unit))
    return found[::-1]


def x_of(ratio: float) -> float:
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    share = (min(max(math.log(ratio), low), high) - low) / (high - low)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def short(what: str) -> str:
    plain = what.replace("`", "")
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1].rstrip(" ,") + "…"


def picture(found: list[tuple[str, list[float]]]) -> str:
    """The SVG; it names no font file and holds no script."""
    height = TOP + ROW * len(found) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-size="13">times as fast as PyTorch 2.13, or with so much'
        " less memory (1 = equal)</text>",
    ]
    for tick in TICKS:
        x, color = x_of(tick), "#333333" if tick == 1 else "#dddddd"
        parts.append(f'<path d="M{x} {TOP - 8}V{height - 24}" stroke="{color}"/>')
        parts.append(f'<text x="{x}" y="{height - 8}" text-anchor="middle">{tick:g}</text>')
    for number, (what, ratios) in enumerate(found):
        y = TOP + ROW * number + 6
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">')
        parts.append(f"{escape(short(what))}</text>")
        for ratio in ratios:
            color = "#2a6fb0" if ratio >= 1 else "#c0392b"
            parts.append(f'<circle cx="{x_of(ratio)}" cy="{y}" r="4.5" fill="{color}">')
            parts.append(f"<title>{escape(what)}: {ratio:.2f}</title></circle>")
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    PICTURE.write_text(picture(rows(README.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"written: {PICTURE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
