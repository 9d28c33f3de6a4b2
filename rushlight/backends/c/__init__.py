"""Readable C from tile programs, built with any C compiler, with the bits of the default backend.

RUSHLIGHT_BACKEND=c DEBUG=4 python train.py        # shows the C of every kernel
"""

from __future__ import annotations

from rushlight.backends.c.build import build, dump, load, lower_text, restore
from rushlight.backends.c.caps import find
from rushlight.backends.cfamily.refuse import refuse
from rushlight.compiler.target import Backend

BACKEND = Backend("c", find, build, load, lower_text, dump, restore, refuse=refuse)

__all__ = ["BACKEND"]
