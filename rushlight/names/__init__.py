"""The names that PyTorch's users type: where they are, and what is said when they are not there."""

import sys

from rushlight.names.finder import AliasFinder
from rushlight.names.missing import getattr_of, missing_name
from rushlight.names.version import TorchVersion

__all__ = ["TorchVersion", "getattr_of", "missing_name"]

sys.meta_path.append(AliasFinder())
