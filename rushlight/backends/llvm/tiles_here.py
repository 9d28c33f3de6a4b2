"""Are tile registers (AMX) used on this machine, and if not, why?

In: the features of this CPU. Out: the features without those that must not be used. The kernel is
asked first (amx.py), then a product with a known answer is made (tiles_check.py); where that is
wrong, a warning says so, and products are made as on a CPU without AMX.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace

from rushlight.backends.llvm import amx
from rushlight.backends.llvm.caps import AMX, find_caps, split_target
from rushlight.backends.llvm.tiles_check import what_is_wrong
from rushlight.base.config import config
from rushlight.compiler.target import Caps, Missing


@functools.cache
def with_usable_tiles(caps: Caps, products: str = "highest") -> Caps:
    """The caps of this machine with tile registers where they can be used. products: how exact
    those of float32 must be, "highest", "high" or "medium"."""
    if not split_target(caps.features).tiles:
        return caps
    if why_not(caps.features):
        return replace(caps, features=f"{caps.features},{','.join(f'-{name}' for name in AMX)}")
    more = "" if products == "highest" else f",+products-{products}"
    return replace(caps, features=f"{caps.features}{more}")


@functools.cache
def why_not(features: str) -> str:
    """Why a CPU with these features makes no products in tile registers; "": it does."""
    target = split_target(features)
    if not target.tiles:
        return "this CPU has none"
    if target.tiles == "emulated":
        return ""
    refused = amx.why_not()
    if refused:
        return refused
    wrong = what_is_wrong(target)
    if wrong:
        warnings.warn(
            f"the tile registers (AMX) of this CPU are not used: {wrong}. Please report it.",
            RuntimeWarning,
            stacklevel=2,
        )
    return wrong


def describe_tiles() -> str:
    """For `rushlight doctor`."""
    found = find_caps(config.cpu_features, config.num_threads)
    why = found.reason if isinstance(found, Missing) else why_not(found.features)
    return f"not used: {why}" if why else "used for products of bfloat16 and of int8"
