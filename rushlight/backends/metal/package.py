"""Kernels ahead of time: `.metal` files, a manifest, a script that makes a `.metallib` of each.

In: tile programs. Out: a folder. On a Mac `sh build.sh` compiles it; with RUSHLIGHT_METAL_PACKAGE
naming the folder, kernels whose text is in it are loaded and not compiled. Always true: a file's
name is a hash of its text, so a library is used for exactly that text; a folder of another version
of the format, and a text that was changed, are refused.
**Checked by emulation, not run on Apple hardware.**
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from rushlight.backends.cfamily.context import Machine
from rushlight.backends.cfamily.lower import lower_programs
from rushlight.backends.cfamily.refuse import refuse
from rushlight.backends.cfamily.text import print_programs
from rushlight.backends.metal.caps import caps_of
from rushlight.backends.metal.language import Metal
from rushlight.base.config import config
from rushlight.base.errors import BackendError
from rushlight.compiler.tile.ir import Program

VERSION = 1
MANIFEST = "manifest.json"
# No fast math, no contraction: bits are the program's (driver_impl.py says the same at run time).
SCRIPT = """\
#!/bin/sh
# On a Mac with Xcode's command line tools: a .metallib beside every .metal file.
set -e
cd "$(dirname "$0")"
for file in *.metal; do
    name=${file%.metal}
    xcrun -sdk macosx metal -std=metal3.0 -fno-fast-math -ffp-contract=off -c "$file" -o "$name.air"
    xcrun -sdk macosx metallib "$name.air" -o "$name.metallib"
    rm "$name.air"
done
"""


def stem_of(source: str) -> str:
    return f"kernels_{hashlib.sha256(source.encode()).hexdigest()[:24]}"


def write_package(programs: Sequence[Program], folder: Path) -> list[str]:
    """The files for a Mac's GPU; what is left out, with its reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    caps, entries, left_out = caps_of("device", "ahead of time"), {}, []
    for program in programs:
        reasons = refuse(program, caps)
        if reasons:
            left_out.append(f"{program.name}: {'; '.join(reasons)}")
            continue
        lowered = lower_programs([program], Machine.of(caps))
        source = print_programs(lowered, Metal())
        stem = stem_of(source)
        (folder / f"{stem}.metal").write_text(source, encoding="utf-8")
        kernels = {
            kernel.name: {"threads": kernel.threads} for one in lowered for kernel in one.kernels
        }
        entries[stem] = {"program": program.name, "kernels": kernels}
    record = {"version": VERSION, "kernels": entries}
    (folder / MANIFEST).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    (folder / "build.sh").write_text(SCRIPT)
    return left_out


def find_library(source: str) -> Path | None:
    """The compiled library of a text, in the folder that the settings name; None: there is none.

    BackendError for a folder that is no package of this version, or whose text is another.
    """
    if not config.metal_package:
        return None
    folder, stem = Path(config.metal_package), stem_of(source)
    try:
        record = json.loads((folder / MANIFEST).read_text())
        version, entries = record["version"], record["kernels"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackendError(f"backend metal: {folder} is no package of kernels: {error}") from error
    if version != VERSION:
        raise BackendError(
            f"backend metal: the package {folder} has version {version}, this is {VERSION}: "
            f"write it again (rushlight package)"
        )
    library = folder / f"{stem}.metallib"
    if stem not in entries or not library.exists():
        return None
    if (folder / f"{stem}.metal").read_text(encoding="utf-8") != source:
        raise BackendError(f"backend metal: {stem}.metal in {folder} was changed")
    return library
