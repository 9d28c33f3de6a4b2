"""Tests of a tool import it by its name, as the tools import one another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
