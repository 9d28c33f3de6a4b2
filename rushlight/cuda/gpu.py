"""What torch.cuda answers where device("cuda") is there: an NVIDIA GPU, or Triton's interpreter.

In: nothing but the driver. Out: HERE, for names/absent.py. What only a GPU has is an error in the
interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from rushlight.base.config import config
from rushlight.names.absent import Here
from rushlight.runtime.cuda_impl import Gpu, open_gpu
from rushlight.tensors import device_calls

INTERPRETER = "Triton's interpreter"
check = partial(device_calls.check_index, "cuda")


@dataclass(frozen=True)
class _Properties:
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def _gpu(device: Any, what: str) -> Gpu:
    found = open_gpu(check(device))
    if config.triton_interpret or isinstance(found, str):
        raise RuntimeError(f"{what}: {INTERPRETER} runs on the CPU and has none")
    return found


def get_device_name(device: Any = None) -> str:
    check(device)
    return INTERPRETER if config.triton_interpret else _gpu(device, "get_device_name").name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    return _gpu(device, "get_device_capability").capability


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes."""
    return _gpu(device, "mem_get_info").memory()


def get_device_properties(device: Any = None) -> _Properties:
    gpu = _gpu(device, "get_device_properties")
    return _Properties(gpu.name, *gpu.capability, gpu.memory()[1], gpu.multiprocessors)


def get_arch_list() -> list[str]:
    """The chips that kernels are made for here."""
    if config.triton_interpret:
        return []
    return ["sm_{}{}".format(*get_device_capability())]


class Stream(device_calls.Stream):
    @property
    def cuda_stream(self) -> int:
        return self.stream_id


HERE = Here(
    lambda: device_calls.is_here("cuda"),
    {
        **device_calls.functions_of("cuda"), "get_device_name": get_device_name,
        "get_device_capability": get_device_capability, "mem_get_info": mem_get_info,
        "get_device_properties": get_device_properties, "get_arch_list": get_arch_list,
    },
    {"Stream": Stream, "Event": device_calls.Event},
)  # fmt: skip
