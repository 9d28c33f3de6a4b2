"""DUMP=folder: every stage of every program as files, and an index to look at them.

    folder/index.html                 all programs and kernels of this process
    folder/p0/00_graph.txt            the recorded graph (ir/text.parse_graph reads it)
    folder/p0/01_decompose.txt        after each pass
    folder/p0/05_build_kernels_k0.txt tile programs (compiler/tile/text_parse reads them)
    folder/p0/07_kernel_k0.ll, .s     what the backend made of it

With ONLY, just the files of the kernels, passes or lines that it lets through.
"""

from __future__ import annotations

import html
from pathlib import Path

from rushlight.engine.listen import Listener, Stage, sources_of
from rushlight.engine.only import Only
from rushlight.engine.report import kernels_allowed

SUFFIXES = {"ir": ".ll", "asm": ".s"}
STYLE = "body{font:15px sans-serif;margin:2em}li{margin:.2em}code{background:#eee}"


class DumpWriter(Listener):
    """Writes the files of one compilation."""

    def __init__(self, folder: str, only: str) -> None:
        self.root, self.only = Path(folder), Only.parse(only)

    def stage(self, stage: Stage) -> None:
        if stage.kind == "code":
            self._code(stage)
        allowed = kernels_allowed(stage, self.only) if stage.kind == "tiles" else set()
        for kernel, text in stage.texts.items():
            if kernel:
                if kernel in allowed:
                    self._write(stage, f"{stage.name}_{kernel}.txt", text)
            elif self.only.allows_pass(stage.name):
                self._write(stage, f"{stage.name}.txt", text)
        if stage.kind == "plan":
            self._index()

    def _code(self, stage: Stage) -> None:
        allowed = kernels_allowed(stage, self.only)
        for what, suffix in SUFFIXES.items():
            for kernel, text in sources_of(stage, what).items():
                if kernel in allowed:
                    self._write(stage, f"kernel_{kernel}{suffix}", text)

    def _write(self, stage: Stage, name: str, text: str) -> None:
        folder = self.root / stage.log.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stage.number:02}_{name}").write_text(text, encoding="utf-8")

    def _index(self) -> None:
        """Written again after every program: a look at a process that still runs is up to date."""
        parts = []
        for folder in sorted(self.root.glob("p*/"), key=lambda path: (len(path.name), path.name)):
            items = "".join(
                f'<li><a href="{folder.name}/{html.escape(path.name)}">{html.escape(path.name)}</a>'
                for path in sorted(folder.iterdir())
            )
            parts.append(f"<h2>program {folder.name}</h2><ul>{items}</ul>")
        if self.root.exists():
            page = f"<!doctype html><meta charset=utf-8><title>Rushlight dump</title><style>{STYLE}"
            body = "".join(parts)
            (self.root / "index.html").write_text(
                f"{page}</style><h1>Programs</h1>{body}\n", encoding="utf-8"
            )
