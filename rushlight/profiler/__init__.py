"""`torch.profiler`: what a part of a program runs, how often and how long."""

from rushlight import names as _names
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from rushlight.profiler.profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


def kineto_available() -> bool:
    """Is PyTorch's collector of device events there? No: kernels are timed here."""
    return False
