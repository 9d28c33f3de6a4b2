"""The part of Module that changes its tensors: dtype, device, mode, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import rushlight as torch
from rushlight.nn.modules.module_walk import ModuleWalk
from rushlight.nn.parameter import Parameter

Self = TypeVar("Self", bound="ModuleConvert")


def parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, torch.dtype | None, bool, Any]:
    """Read the arguments of `Module.to`: `to(device)`, `to(dtype)`, `to(tensor)` and mixes."""
    device = kwargs.get("device")
    dtype = kwargs.get("dtype")
    non_blocking = kwargs.get("non_blocking", False)
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "tensor", "memory_format"}
    if unknown:
        raise TypeError(f"to() received an invalid keyword argument '{sorted(unknown)[0]}'")
    other = kwargs.get("tensor")
    for arg in args:
        if isinstance(arg, torch.Tensor):
            other = arg
        elif isinstance(arg, torch.dtype | type):
            dtype = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif arg is not None:
            device = arg
    if other is not None:
        device, dtype = other.device, other.dtype
    if dtype is not None and not isinstance(dtype, torch.dtype):
        dtype = torch.empty(0, dtype=dtype).dtype  # Python's float; others are refused
    return device, dtype, non_blocking, kwargs.get("memory_format")


def clear_grad(grad: torch.Tensor) -> None:
    """Fill a gradient with zeros, in place, and cut it from the graph that made it."""
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()


class ModuleConvert(ModuleWalk):
    """Conversions; each returns the module itself."""

    def apply(self: Self, fn: Callable[[Any], None]) -> Self:
        """Call `fn` with each module, the deepest first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(
        self: Self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> Self:
        """Replace each tensor by `fn(tensor)`; a parameter stays the same Python object, which
        an optimizer may have, unless it comes from "meta" or goes there."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                data = fn(parameter)
                grad = None if parameter.grad is None else fn(parameter.grad)
            if data.is_meta == parameter.is_meta:
                self._replace_data(parameter, data, grad)
                continue
            moved = Parameter(data, parameter.requires_grad)
            moved.grad = grad
            self._parameters[name] = moved
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    @staticmethod
    def _replace_data(parameter: Parameter, data: torch.Tensor, grad: torch.Tensor | None) -> None:
        # The old gradient may have another dtype than the new data, which `.grad` refuses.
        parameter.grad = None
        parameter.data = data
        parameter.grad = grad

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device, convert floating-point tensors to a dtype, or both."""
        device, dtype, non_blocking, memory_format = parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={dtype}"
            )

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            takes_dtype = tensor.is_floating_point() or tensor.is_complex()
            options = {"dtype": dtype if takes_dtype else None, "non_blocking": non_blocking}
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            return tensor.to(device, **options)

        return self._apply(convert)

    def _convert_floats(self: Self, dtype: torch.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._convert_floats(torch.float32)

    def double(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._convert_floats(torch.float64)

    def half(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._convert_floats(torch.float16)

    def bfloat16(self: Self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._convert_floats(torch.bfloat16)

    def type(self: Self, dst_type: torch.dtype | str) -> Self:
        """Convert all parameters and buffers to `dst_type`."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def cpu(self: Self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: Self, device: int | str | torch.device | None = None) -> Self:
        """Move all parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self: Self, device: int | str | torch.device | None = None) -> Self:
        """Move all parameters and buffers to an Intel GPU."""
        return self._apply(lambda tensor: tensor.xpu(device))

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device and leave the values undefined."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Say for all parameters if autograd records operations on them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                clear_grad(parameter.grad)

    def share_memory(self: Self) -> Self:
        """Move all tensors to memory shared between processes."""
        return self._apply(lambda tensor: tensor.share_memory_())
