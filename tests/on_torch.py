"""Run the packages above the tensors on PyTorch, to test them on their own.

    python -m pytest -p tests.on_torch tests/unit/nn tests/parity

`nn`, `optim` and `utils` use only the public API. So here a stand-in module named
`rushlight` answers for these three with this checkout's folders and for every other name with
PyTorch; what `nn` publishes of other folders (`STOOD_IN`) is PyTorch's too. The same tests run on
Rushlight itself when the plugin is left out.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

OWN_PACKAGES = ("nn", "optim", "utils")
# Folders that `nn` imports from: where PyTorch has their names.
STOOD_IN = {
    "tensors.functional": ("nn.functional",),
    "losses": ("nn.functional", "nn"),
    "attention": ("nn.attention.flex_attention",),
}
PACKAGE_FOLDER = Path(__file__).resolve().parent.parent / "rushlight"
SWITCH = "RUSHLIGHT_ON_TORCH"  # tells child processes of a test to install the stand-in too


class StandIn(types.ModuleType):
    """A module `rushlight` made of our packages and, for all other names, PyTorch."""

    def __getattr__(self, name: str) -> Any:
        import torch

        if name in OWN_PACKAGES:
            return importlib.import_module(f"rushlight.{name}")
        return getattr(torch, name)


def install() -> None:
    """Put the stand-in into `sys.modules`; do nothing when it is there."""
    if isinstance(sys.modules.get("rushlight"), StandIn):
        return
    import torch

    for name in [name for name in sys.modules if name.split(".")[0] == "rushlight"]:
        del sys.modules[name]
    stand_in = StandIn("rushlight")
    stand_in.__path__ = [str(PACKAGE_FOLDER)]
    sys.modules["rushlight"] = stand_in
    sys.modules["rushlight.tensors"] = types.ModuleType("rushlight.tensors")
    for name, sources in STOOD_IN.items():
        sys.modules[f"rushlight.{name}"] = _module_of(name, sources)
    functional: Any = sys.modules["rushlight.tensors.functional"]
    functional.masked_softmax = lambda scores, mask: torch.softmax(scores, -1)
    sys.modules["rushlight.tensors"].functional = functional
    turns: Any = types.ModuleType("rushlight.tensors.loop_turns")
    turns.call_begins = lambda model: None  # PyTorch computes at once
    sys.modules[turns.__name__] = turns
    # Where Parameter finds it here; PyTorch has it in a module that nn cannot import so early.
    torch.Tensor._disabled_torch_function = torch._C._disabled_torch_function_impl
    os.environ[SWITCH] = "1"


def _module_of(name: str, sources: tuple[str, ...]) -> types.ModuleType:
    """A module with the names of these modules of PyTorch; of two the first one's."""
    module = types.ModuleType(f"rushlight.{name}")
    for source in reversed(sources):
        vars(module).update(
            (key, value)
            for key, value in vars(importlib.import_module(f"torch.{source}")).items()
            if not key.startswith("__")
        )
    return module


def pytest_configure(config: object) -> None:
    """Install before pytest collects the tests."""
    install()
