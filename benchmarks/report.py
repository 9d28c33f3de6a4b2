"""Results as lines on the terminal, a Markdown table, JSON and a plot."""

import importlib
import json
import re
from pathlib import Path

HEADER = (
    f"{'workload':<28} {'rushlight':>12} {'torch':>12} {'torch/rushlight':>16}"
    f" {'first call':>17} {'processor':>17} {'peak MiB':>13} {'above MiB':>13}  rate"
)
UNITS = {
    "flop": ("GFLOP/s", 1e9), "bfloat16 flop": ("GFLOP/s", 1e9), "int8 operation": ("Gop/s", 1e9),
    "byte": ("GB/s", 1e9),
}  # fmt: skip
UNITS["32 MiB read"] = ("GB/s", 1e9)
PEAKS = {
    "32 MiB read": "reads of 32 MiB",
    "byte": "copy",
    "flop": "float32 multiply-add",
    "bfloat16 flop": "bfloat16 multiply-add",
}


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def quantity(value: float) -> str:
    """Three digits, with a letter for thousands and millions."""
    for letter, scale, least in (("M", 1e6, 1e6), ("k", 1e3, 1e4)):
        if value >= least:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def ratio(results, rival: str = "torch") -> float | None:
    """How many times as fast Rushlight is; below one it is slower."""
    ours, theirs = results.get("rushlight"), results.get(rival)
    if ours is None or theirs is None or not (ours.seconds and theirs.seconds):
        return None
    if ours.failed or theirs.failed:
        return None
    return theirs.median_s / ours.median_s


def rate(measured, peaks: dict[str, float]) -> str:
    """What was done per second, and which share of the machine's peak that is."""
    parts = []
    for what, amount in measured.work.items():
        unit, scale = UNITS.get(what, (f"{what}s/s", 1.0))
        done = amount / measured.median_s
        share = f" ({100 * done / peaks[what]:.0f} %)" if what in peaks else ""
        parts.append(f"{quantity(done / scale)} {unit}{share}")
    return ", ".join(parts)


def peaks_line(peaks: dict[str, float]) -> str:
    """The machine's peaks, which the shares in brackets are of."""
    texts = [
        f"{title} {quantity(peaks[what] / UNITS[what][1])} {UNITS[what][0]}"
        for what, title in PEAKS.items()
        if what in peaks
    ]
    return "peaks (100 %): " + (", ".join(texts) or "not measured")


def growth_lines(rows) -> list[str]:
    """For cases that differ in n alone: how often as long each n takes as the one before.

    In brackets how often as much work it is; a wrong slope is a factor that stays above that.
    """
    series: dict[tuple[str, str], list] = {}
    for row in rows:
        found = re.fullmatch(r"(.*?) ?n=(\d+)", row["case"])
        for module, measured in row["results"].items():
            if found and measured.seconds and not measured.failed:
                key = (f"{row['workload']} {found[1]}".strip(), module)
                series.setdefault(key, []).append((int(found[2]), measured))
    lines = []
    for (name, module), found in series.items():
        if len(found) < 2:
            continue
        found.sort(key=lambda item: item[0])
        steps = [
            f"{n} x{m.median_s / before.median_s:.1f} ({growth_of_work(before, m):.0f})"
            for (_, before), (n, m) in zip(found, found[1:], strict=False)
        ]
        first = f"{found[0][0]} {duration(found[0][1].median_s)}"
        lines.append(f"{name:<18} {module:<10} " + ", ".join([first, *steps]))
    return ["", "cost against size:", *lines] if lines else []


def growth_of_work(before, after) -> float:
    what = next(iter(after.work))
    return after.work[what] / before.work[what]


def cells(row) -> dict[str, str]:
    """The texts of one row, by column."""
    results = row["results"]
    shown = {"name": f"{row['workload']}/{row['case']}"}
    for module, measured in results.items():
        good = measured.seconds and not measured.failed
        shown[module] = duration(measured.median_s) if good else "failed"
        shown[f"{module} spread"] = (
            f"{duration(min(measured.seconds))}–{duration(max(measured.seconds))}" if good else ""
        )
        shown[f"{module} first"] = duration(measured.first_s) if good else ""
        shown[f"{module} cpu"] = duration(measured.median_cpu_s) if good else ""
        shown[f"{module} peak"] = f"{measured.peak_mb:.0f}" if good else ""
        known = good and measured.extra_mb is not None
        shown[f"{module} above"] = f"{measured.extra_mb:.0f}" if known else ""
        shown[f"{module} rate"] = rate(measured, row["peaks"]) if good else ""
        shown[f"{module} reason"] = measured.failed
    factor = ratio(results)
    shown["ratio"] = "" if factor is None else f"{factor:.2f}"
    over_jax = ratio(results, "jax")
    if over_jax is not None:
        shown["jax"] += f" ({over_jax:.2f})"
    return shown


def both(shown: dict[str, str], what: str) -> str:
    texts = [shown.get(f"{module} {what}", "") for module in ("rushlight", "torch")]
    return " / ".join(text or "-" for text in texts)


def line(row) -> str:
    """One row for the terminal, with the reasons of failures below."""
    shown = cells(row)
    ours, theirs = shown.get("rushlight", "-"), shown.get("torch", "-")
    text = (
        f"{shown['name']:<28} {ours:>12} {theirs:>12} {shown['ratio']:>16}"
        f" {both(shown, 'first'):>17} {both(shown, 'cpu'):>17} {both(shown, 'peak'):>13}"
        f" {both(shown, 'above'):>13}"
        f"  {both(shown, 'rate')}"
    )
    if "jax" in shown:
        text += f"   jax: {shown['jax']}"
    if row["goal"]:
        text += f"   goal: {row['goal']}"
    for module in row["results"]:
        if shown[f"{module} reason"]:
            text += f"\n    {module} failed: {shown[f'{module} reason']}"
    return text


def markdown(rows, machine: dict[str, str]) -> str:
    lines = [
        "# Benchmark results",
        "",
        ", ".join(f"{name}: {value}" for name, value in machine.items()),
        "",
        "Medians, with the fastest and slowest repetition; *speed* is PyTorch's time over"
        " Rushlight's (in brackets: JAX's), so above 1 Rushlight is faster."
        " *Above*: memory of a run beyond its inputs"
        " and results. *Processor*: time of all its threads, the median. In brackets: the share of"
        " what the machine can do.",
        "",
        peaks_line(rows[0]["peaks"] if rows else {}),
        "",
        "| workload | rushlight | torch | speed | jax | goal | first | processor | peak MiB |"
        " above MiB"
        " | rate |",
        "| --- | --: | --: | --: | --: | --- | --: | --: | --: | --: | --: |",
    ]
    reasons = []
    for row in rows:
        shown = cells(row)
        times = [
            f"{shown[module]} ({shown[f'{module} spread']})"
            if shown.get(f"{module} spread")
            else shown.get(module, "-")
            for module in ("rushlight", "torch")
        ]
        lines.append(
            f"| {shown['name']} | {times[0]} | {times[1]} | {shown['ratio'] or '-'}"
            f" | {shown.get('jax', '-')} | {row['goal']}"
            f" | {both(shown, 'first')} | {both(shown, 'cpu')} | {both(shown, 'peak')}"
            f" | {both(shown, 'above')} | {both(shown, 'rate')} |"
        )
        reasons += [
            f"* {shown['name']} on {module} failed: {shown[f'{module} reason']}"
            for module in row["results"]
            if shown[f"{module} reason"]
        ]
    growth = growth_lines(rows)
    block = ["```", *growth[1:], "```"] if growth else []
    return "\n".join([*lines, "", *reasons, "", *block, ""])


def plot(rows, path: Path) -> bool:
    """Bars of the speed relative to PyTorch; False where matplotlib is missing."""
    pairs = [(cells(row)["name"], ratio(row["results"])) for row in rows]
    pairs = [(name, factor) for name, factor in pairs if factor is not None]
    try:
        figure_module = importlib.import_module("matplotlib.figure")
    except ImportError:
        return False
    if not pairs:
        return False
    names, factors = zip(*reversed(pairs), strict=True)
    figure = figure_module.Figure(figsize=(8, 1 + 0.3 * len(pairs)), layout="constrained")
    axes = figure.add_subplot(xlabel="speed relative to PyTorch (1 = equal)", xscale="log")
    # Bars from 1 show both directions on a logarithmic axis.
    axes.barh(names, [f - 1 for f in factors], left=1, color="steelblue")
    axes.axvline(1, color="black", linewidth=0.8)
    figure.savefig(path, dpi=130)
    return True


def write(out: Path, rows, machine: dict[str, str], to_dict) -> list[Path]:
    """Write the files of a run into a folder; gives their paths."""
    plain = [{**row, "results": {m: to_dict(r) for m, r in row["results"].items()}} for row in rows]
    table, data, picture = out / "results.md", out / "results.json", out / "results.png"
    table.write_text(markdown(rows, machine), encoding="utf-8")
    data.write_text(json.dumps({"machine": machine, "rows": plain}, indent=1), encoding="utf-8")
    return [table, data, *([picture] if plot(rows, picture) else [])]
