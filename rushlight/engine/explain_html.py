"""An Explanation as one HTML page that needs nothing else.

In: an Explanation, and a user line or "". Out: the page as text: a table of kernels, then for each
what it computes, why, how it is run, and its source folded away.
"""

from __future__ import annotations

from html import escape

from rushlight.engine.explain import (
    OP_HEADING,
    RUN_HEADING,
    WHY_HEADING,
    Explanation,
    KernelPage,
    Value,
    op_row,
    run_row,
    values_at,
    why_rows,
)

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
table { border-collapse: collapse; margin: .6em 0 1.4em } th { text-align: left; color: #666 }
td, th { padding: .15em .9em .15em 0; border-bottom: 1px solid #e5e5e5; white-space: nowrap }
pre { background: #f6f6f4; padding: .8em; overflow: auto; font-size: 12.5px }
h2 { margin-top: 2em } summary { cursor: pointer; color: #555 }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd } pre { background: #262626 }
  td, th { border-color: #333 }
}
"""


def page(seen: Explanation, line: str = "", source: bool = False) -> str:
    """The whole page; with a line, only what it became; with `source`, the backend's code too."""
    values = values_at(seen, line) if line else seen.values
    names = {name for value in values for name in value.kernels}
    pages = [p for name, p in seen.kernels.items() if name in names or not line]
    title = f"Rushlight: {line}" if line else "Rushlight: what was computed"
    body = [f"<h1>{escape(title)}</h1>", html_table([RUN_HEADING, *map(run_row, pages)])]
    body += [kernel_part(p, [v for v in values if p.info.name in v.kernels], source) for p in pages]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{STYLE}</style>{''.join(body)}</html>\n"
    )


def kernel_part(kernel: KernelPage, values: list[Value], source: bool) -> str:
    info = kernel.info
    picks = "".join(f"<li>{escape(str(decision))}</li>" for decision in kernel.picks)
    return "".join(
        (
            f"<h2 id={escape(info.name)}>{escape(info.name)} {escape(info.label)}</h2>",
            html_table([OP_HEADING, *map(op_row, values)]),
            html_table([WHY_HEADING, *why_rows(values)]),
            f"<ul>{picks}</ul>",
            folded("tile program", kernel.tile),
            folded("source", kernel.source if source else ""),
        )
    )


def html_table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = rows
    lines = [_row("th", head), *(_row("td", row) for row in rest)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def folded(title: str, text: str) -> str:
    if not text:
        return ""
    return f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"
