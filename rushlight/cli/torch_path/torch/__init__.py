"""`import torch` in the child processes of `rushlight run`: Rushlight.

The folder above is the last place on `sys.path`, which `multiprocessing` hands to its children. The
import of this file ends with `rushlight` in its place.
"""

import sys

import rushlight
import rushlight.as_torch

sys.modules["torch"] = rushlight
