"""Device objects. "cpu" is always there; another known device is there when a code generator for it
finds one (engine/devices.py), and asking for a tensor on one that is not there is an error that
says why, as in a PyTorch built without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga",
    "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """torch.device("cpu"), torch.device("cuda", 1), torch.device("cuda:1")."""

    __slots__ = ("type", "index")
    type: str
    index: int | None

    def __new__(cls, type: Any = None, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if isinstance(type, int):
            type, index = "cuda", type
        name, _, number = str(type).partition(":")
        if number:
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            index = int(number)
        if name not in KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(KNOWN)} device type at start of device string: {name}"
            )
        self = object.__new__(cls)
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", index)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        require_cpu(self)
        return self

    def __exit__(self, *error: object) -> None:
        return None


CPU = device("cpu")


class _Devices:
    """used: has a tensor been put on another device than the CPU? Until then nobody asks where a
    tensor is. why_missing: (type) -> why there is no such device, "" if there is one; the engine
    puts it here."""

    used = False
    why_missing: Callable[[str], str] = staticmethod(lambda kind: "no code generator is for it")


DEVICES = _Devices


def require_device(wanted: Any) -> device:
    """The CPU for None, "cpu", "cpu:0"; another device if it is there, else an error."""
    if wanted is None or wanted is CPU:
        return CPU
    found = device(wanted)
    if found.type == "cpu":
        return CPU
    why = DEVICES.why_missing(found.type)
    if not why and not found.index:
        DEVICES.used = True
        return device(found.type)
    if found.type == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    why = why or "there is one device of this type"
    raise RuntimeError(f"device '{found}' is not available: {why}. Rushlight runs on 'cpu' here")


def require_cpu(wanted: Any) -> device:
    """The CPU device for None, "cpu", "cpu:0"; otherwise an error."""
    found = require_device(wanted)
    if found is not CPU:
        raise RuntimeError(f"this is for the device 'cpu' only, got '{found}'")
    return CPU
