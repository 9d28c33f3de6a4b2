"""FakeTensorMode: what a program would make, without values.

In: any code inside `with FakeTensorMode():`. Out: tensors of the device `meta` that say they are on
the device that was asked for.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.overrides.dispatch import turn_on
from rushlight.overrides.mode import TorchFunctionMode
from rushlight.overrides.state import Setting

__getattr__ = _names.getattr_of(__name__)

NOT_FAKE = (
    "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
    "'allow_non_fake_inputs'. Found in {}"
)
MOVES = {"cuda": "cuda", "cpu": "cpu"}  # methods that name a device


class FakeTensor(torch.Tensor):
    """A tensor without values. fake_device: where it says it is."""

    __module__ = "rushlight._subclasses.fake_tensor"
    fake_device: Any
    fake_mode: FakeTensorMode

    @property
    def device(self) -> Any:  # type: ignore[override]
        """Where it says it is."""
        return self.fake_device

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        fakes = [
            value
            for value in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(value, cls)
        ]
        return fakes[0].fake_mode.run(func, args, kwargs or {})

    def _as_parameter(self, requires_grad: bool) -> FakeTensor:
        """What `nn.Parameter(tensor)` gives."""
        return _faked(self.detach(), self.fake_mode, self.fake_device, FakeParameter, requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        extra = f", dtype={self.dtype}" if self.dtype != torch.get_default_dtype() else ""
        place = "" if self.fake_device.type == "cpu" else f"device='{self.fake_device}', "
        return f"FakeTensor(..., {place}size={tuple(self.shape)}{extra})"

    __str__ = __repr__


class FakeParameter(FakeTensor, torch.nn.Parameter):
    """A fake tensor that is a parameter of a module."""


FakeParameter.__name__ = FakeParameter.__qualname__ = "FakeTensor"


def _faked(
    tensor: Any, mode: FakeTensorMode, device: Any, kind: type = FakeTensor, grad: bool = False
) -> Any:
    meta = tensor.to("meta") if not tensor.is_meta else tensor
    made = meta.as_subclass(kind) if kind is FakeTensor else (
        torch.Tensor._make_subclass(kind, meta, grad))  # fmt: skip
    made.fake_mode, made.fake_device = mode, torch.device(device)
    return made


class FakeTensorMode(TorchFunctionMode):
    """Inside, functions give fake tensors.

    allow_non_fake_inputs: functions may be given tensors with values; only their shapes are used.

    >>> with FakeTensorMode():
    ...     x = torch.ones(1000, 1000, 1000) @ torch.ones(1000, 8)
    >>> x
    FakeTensor(..., size=(1000, 1000, 8))
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
        shape_env: Any = None, static_shapes: bool | None = None, export: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        turn_on()
        self.allow_non_fake_inputs, self.shape_env = allow_non_fake_inputs, shape_env
        self.static_shapes = static_shapes is not False

    def from_tensor(self, tensor: Any, **_: Any) -> FakeTensor:
        """The fake of a tensor, on its device."""
        if isinstance(tensor, FakeTensor):
            return tensor
        kind = FakeParameter if isinstance(tensor, torch.nn.Parameter) else FakeTensor
        with Setting(modes=()):
            return _faked(tensor.detach(), self, tensor.device, kind, tensor.requires_grad)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function with fakes."""
        name = getattr(func, "__name__", "")
        device = self._device(name, args, kwargs)

        def plain(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return torch.device("meta") if isinstance(value, torch.device) else value
            if not isinstance(value, FakeTensor) and not value.is_meta:
                if not self.allow_non_fake_inputs and value.dim() > 0:
                    raise AssertionError(NOT_FAKE.format(name))
                return value.to("meta")
            return value

        with Setting(subclasses=False), Setting(modes=()), torch.device("meta"):
            if name in MOVES:
                return self._wrap(args[0].clone(), device)
            args, kwargs = torch.utils._pytree.tree_map(plain, (tuple(args), kwargs))
            if "device" in kwargs:
                kwargs = {**kwargs, "device": "meta"}
            return torch.utils._pytree.tree_map(
                lambda value: self._wrap(value, device), func(*args, **kwargs)
            )

    def _wrap(self, value: Any, device: Any) -> Any:
        if not isinstance(value, torch.Tensor) or hasattr(value, "fake_mode"):
            return value
        return _faked(value, self, device)

    @staticmethod
    def _device(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Where the result says it is."""
        if kwargs.get("device") is not None:
            return torch.device(kwargs["device"])
        if name in MOVES:
            return torch.device(MOVES[name])
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        if name == "to":
            for value in leaves[1:]:
                if isinstance(value, torch.device | str):
                    return torch.device(value)
        found = [value.fake_device for value in leaves if isinstance(value, FakeTensor)]
        return found[0] if found else torch.device("cpu")
