"""The default CPU backend: tile programs to native code through LLVM IR (llvmlite)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.backends.llvm.caps import find_caps
from rushlight.backends.llvm.plan import load
from rushlight.backends.llvm.store import dump, restore
from rushlight.backends.llvm.tiles_here import with_usable_tiles
from rushlight.backends.llvm.types import LlvmExecutable
from rushlight.base.config import config
from rushlight.base.deferred import deferred
from rushlight.compiler.target import Backend, Caps, Missing
from rushlight.compiler.tile.ir import Program

# What makes code is half of this backend; a process whose kernels are on disk needs none of it.
_BUILD, _EXPLAIN = f"{__name__}.build", f"{__name__}.explain"
_PLAIN, _MEASURED = deferred(_BUILD, "build"), deferred(f"{__name__}.tune", "build_tuned")


def find() -> Caps | Missing:
    """This CPU, with the features and threads that the settings give it."""
    found = find_caps(config.cpu_features, config.num_threads)
    return (
        found if isinstance(found, Missing) else with_usable_tiles(found, config.float32_products)
    )


def build_code(programs: Sequence[Program], caps: Caps) -> list[LlvmExecutable]:
    """Native code; where `max_autotune` is on, schedules of contractions are measured."""
    return (_MEASURED if config.max_autotune else _PLAIN)(programs, caps)


BACKEND = Backend(
    "llvm", find, build_code, load, deferred(_BUILD, "lower_text"), dump, restore,
    lower_asm=deferred(_EXPLAIN, "lower_asm"), picks=deferred(_EXPLAIN, "picks"),
    in_parallel=True, keeps_plans=True,
)  # fmt: skip

__all__ = ["BACKEND", "find", "load"]
