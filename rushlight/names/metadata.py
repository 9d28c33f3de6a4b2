"""What `importlib.metadata` says of a package `torch` while Rushlight stands in for it.

Programs ask `importlib.metadata.version("torch")` and `packages_distributions()` to learn whether
PyTorch is there and which one.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, DistributionFinder
from os import PathLike
from typing import Any

from rushlight.names.version import VERSION

NAME = "torch"
_FILES = {
    "METADATA": (
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
        "Summary: Rushlight under the name of PyTorch.\n"
    ),
    "top_level.txt": f"{NAME}\n",
    "RECORD": "",
}


class TorchDistribution(Distribution):
    """The package `torch`, which lies nowhere on disk."""

    def read_text(self, filename: str) -> str | None:
        return _FILES.get(filename)

    def locate_file(self, path: Any) -> PathLike[str]:
        raise FileNotFoundError(f"{path}: torch is Rushlight here, it has no files of its own")


def find_distributions(context: DistributionFinder.Context) -> Iterator[Distribution]:
    """The distribution `torch`, when it or any is asked for."""
    if context.name is None or context.name.lower().replace("_", "-") == NAME:
        yield TorchDistribution()
