"""A Comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from html import escape

from rushlight.engine.explain_html import STYLE, html_table
from rushlight.testing.backends.compare import Comparison
from rushlight.testing.backends.table import HEADING, notes, rows


def page(seen: Comparison, title: str) -> str:
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes(seen))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>"
        f"{html_table([HEADING, *rows(seen)])}<ul>{listed}</ul>"
        "<p>Correctness: the error against a float64 run is at most four times that of the first "
        "backend, or of one rounding of the largest value. Errors in the table are against the "
        "first backend. Speed was measured in turns.</p></html>\n"
    )
