"""The memory format of the weights of convolutions."""

from __future__ import annotations

from typing import Any, TypeVar

from rushlight.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.modules.module import Module

ModuleT = TypeVar("ModuleT", bound=Module)


def _convert(module: Module, kinds: tuple[type, ...], memory_format: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight = layer.weight
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: ModuleT, memory_format: Any) -> ModuleT:
    """Convert the weights of all two-dimensional convolutions; return `module`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: ModuleT, memory_format: Any) -> ModuleT:
    """Convert the weights of all three-dimensional convolutions; return `module`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
