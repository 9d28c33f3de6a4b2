"""The default CPU backend: tile programs to native code through LLVM IR (llvmlite)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.llvm.build import build, lower_text
from rushlight.backends.llvm.caps import find_caps
from rushlight.backends.llvm.explain import lower_asm, picks
from rushlight.backends.llvm.plan import load
from rushlight.backends.llvm.store import dump, restore
from rushlight.backends.llvm.tiles_here import with_usable_tiles
from rushlight.backends.llvm.tune import build_tuned
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.base.config import config
from rushlight.compiler.target import Backend, Caps, Missing
from rushlight.compiler.tile.ir import Program


def find() -> Caps | Missing:
    """This CPU, with the features and threads that the settings give it."""
    found = find_caps(config.cpu_features, config.num_threads)
    return (
        found if isinstance(found, Missing) else with_usable_tiles(found, config.float32_products)
    )


def build_asked(programs: Sequence[Program], caps: Caps) -> list[LlvmExecutable]:
    """As `build`; where `max_autotune` is on, schedules of contractions are measured."""
    return (build_tuned if config.max_autotune else build)(programs, caps)


BACKEND = Backend(
    "llvm", find, build_asked, load, lower_text, dump, restore, lower_asm=lower_asm, picks=picks
)

__all__ = ["BACKEND", "build", "find", "load", "lower_text"]
