"""Which backend computes for which device, and in which order when several take part.

In: pending nodes. Out: names of backends; stages of a flush. Always true: a program computes for
one device. All memory is the host's: a backend of a device with memory of its own moves what its
programs read and write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.backends import DEVICE_BACKENDS, find_backend
from rushlight.base.config import config
from rushlight.base.devices import CURRENT, DEVICES, device
from rushlight.base.sensors import HOST
from rushlight.compiler.target import Missing
from rushlight.ir.device import device_of, moves
from rushlight.ir.node import Node, topological
from rushlight.runtime.nvml_impl import Nvml
from rushlight.runtime.telemetry import Source

# Devices that are reached by another name.
ELSEWHERE = {
    "hip": "; an AMD GPU with an OpenCL driver is the device 'opencl'",
}


def why_missing(kind: str) -> str:
    """Why there is no device of this type; "" if there is one."""
    name = DEVICE_BACKENDS.get(kind)
    if name is None:
        return f"no code generator is for it{ELSEWHERE.get(kind, '')}"
    backend = find_backend(name)
    found = backend.find()
    if not isinstance(found, Missing) and backend.serves is not None:
        found = backend.serves(kind)
    if not isinstance(found, Missing):
        return ""
    return f"{found.reason} ({found.fix})" if found.fix else found.reason


def sensors_of(wanted: Any = None) -> Source:
    """Whom to ask how busy, how warm, how full a device is; None: the current device.

    Example:
        >>> sensors_of("cpu").total_memory() > 0
        True
    """
    found = CURRENT.stack[-1] if wanted is None else device(wanted)
    if found.type == "cpu":
        return HOST
    if found.type == "cuda":
        return Nvml(found.index or 0)
    why = why_missing(found.type)
    if why:
        raise RuntimeError(f"device '{found}' tells nothing: {why}")
    sensors = find_backend(DEVICE_BACKENDS[found.type]).sensors
    if sensors is None:
        raise RuntimeError(f"device '{found}' tells nothing: its interface has no such queries")
    return sensors()


DEVICES.why_missing = staticmethod(why_missing)


def device_for(roots: Sequence[Node]) -> str:
    """The device for which a program of these roots computes."""
    return (device_of(roots[0]) or "cpu") if DEVICES.used and roots else "cpu"


def backend_for(device: str) -> str:
    return DEVICE_BACKENDS.get(device, config.backend)


def stages(roots: Sequence[Node]) -> list[list[Node]]:
    """The roots, and what must be computed elsewhere before them, one list per program, in order.

    A pending value that is moved to another device is a root of its own device first.
    """
    level: dict[Node, int] = {}
    wanted: dict[tuple[int, str], dict[Node, None]] = {}
    for node in topological(list(roots)):
        level[node] = max((level[source] for source in node.src), default=0)
        if moves(node):
            (source,) = node.src
            there = device_of(source)
            if not source.leaf and there not in (None, device_of(node)):
                wanted.setdefault((level[source], str(there)), {})[source] = None
                level[node] += 1
    for root in roots:
        wanted.setdefault((level[root], device_of(root) or "cpu"), {})[root] = None
    return [list(nodes) for _, nodes in sorted(wanted.items(), key=lambda item: item[0][0])]
