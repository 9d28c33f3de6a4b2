"""Device objects. "cpu" holds tensors, "meta" holds shapes; another known device is there when a
code generator finds one (engine/devices.py). Asking for a tensor on one that is not there is an
error that says why, as in a PyTorch built without it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga",
    "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip

# What scripts take when it is there. OpenCL and Vulkan may be the CPU again, so that they are for
# those who name them.
ACCELERATORS = ("cuda", "xpu", "mps")


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
        """Inside, tensors are made on this device where none is given."""
        CURRENT.stack = (*CURRENT.stack, find_device(self))
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.stack = CURRENT.stack[:-1]

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: the function runs inside."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


CPU = device("cpu")
META = device("meta")


class _Current(threading.local):
    """The devices of the open `with` blocks, below them the default one."""

    stack: tuple[device, ...] = (CPU,)


CURRENT = _Current()


def current_device() -> device:
    """Where a tensor is made when no device is given."""
    return CURRENT.stack[-1]


def set_default_device(wanted: Any) -> None:
    """Make tensors there from now on; None: on the CPU."""
    CURRENT.stack = (find_device("cpu" if wanted is None else wanted), *CURRENT.stack[1:])


def find_device(wanted: Any) -> device:
    """The device for tensors: CPU, META, one that is there, or the current one for None; else the
    error. One object for each."""
    if wanted is None:
        return CURRENT.stack[-1]
    if wanted is CPU:
        return CPU
    found = device(wanted)
    if found.type in _HERE and not found.index:
        return _HERE[found.type]
    missing = DEVICES.why_missing(found.type)
    if not missing and not found.index:
        DEVICES.used = True
        return _HERE.setdefault(found.type, device(found.type))
    if missing and found.type == "cuda":
        raise AssertionError(f"Torch not compiled with CUDA enabled\n{missing}")
    why = missing or f"there is one device of this type, '{found.type}:0'"
    raise RuntimeError(f"device '{found}' is not available: {why}. Rushlight runs on 'cpu' here")


class _Devices:
    """used: has a device beside the CPU been asked for? Until then nobody looks where a tensor is.
    why_missing: (type) -> why there is no such device, "" if there is one; the engine puts it
    here."""

    used = False
    why_missing: Callable[[str], str] = staticmethod(lambda kind: "no code generator is for it")


DEVICES = _Devices
_HERE = {"cpu": CPU, "meta": META}
