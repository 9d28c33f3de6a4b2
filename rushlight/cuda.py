"""torch.cuda, where there is no CUDA: what portable scripts ask before they choose a device."""

from __future__ import annotations

from typing import NoReturn

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed, as in PyTorch without a device."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed, as in PyTorch without a device."""


def empty_cache() -> None:
    """Nothing to free."""


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"torch.cuda.{name}: this build has no CUDA (is_available() says so)")


def current_device() -> int:
    _refuse("current_device")


def get_device_name(device: object = None) -> str:
    _refuse("get_device_name")


def synchronize(device: object = None) -> None:
    _refuse("synchronize")
