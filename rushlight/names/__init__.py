"""The names that PyTorch's users type: where they are, and what is said when they are not there."""

import sys

from rushlight.names.finder import AliasFinder
from rushlight.names.lookup import getattr_of, lend
from rushlight.names.version import TorchVersion

__all__ = ["TorchVersion", "getattr_of", "lend"]

sys.meta_path.append(AliasFinder())
