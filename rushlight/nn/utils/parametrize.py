"""Parametrizations: a parameter or buffer that is computed from others by modules.

`register_parametrization(module, "weight", P())` gives the module a class of its own, in which
`weight` is a property: P of the tensors kept as `parametrizations.weight.original`.
"""

from __future__ import annotations

import collections
import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import rushlight as torch
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

Tensor = torch.Tensor
NOT_PICKLED = (
    "Serialization of parametrized modules is only supported through state_dict(). See:\n"
    "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
    "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
)


class _Cache:
    """Values of parametrized tensors, kept while a `cached()` block is open."""

    depth = 0
    values: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within the block each parametrized tensor is computed once.

    Example:
        >>> layer = register_parametrization(torch.nn.Linear(1, 1), "weight", torch.nn.ReLU())
        >>> with cached():
        ...     layer.weight is layer.weight
        True
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor and its originals; calling it computes the tensor."""

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with torch.no_grad():
            for module in reversed([*self]):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, Tensor) and not isinstance(new, collections.abc.Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_original(original, new)
        else:
            self._keep_originals(original, new)
        if not unsafe:
            check_unchanged(self(), original)

    def _keep_original(self, original: Tensor, new: Tensor) -> None:
        """The original tensor itself stays, with the values that give what it was."""
        if original.dtype != new.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
            )
        if new is not original:
            with torch.no_grad():
                original.data = new.detach()
        if isinstance(original, Parameter):
            self.original = original
        else:
            self.register_buffer("original", original)

    def _keep_originals(self, original: Tensor, new: Sequence[Any]) -> None:
        for place, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {place} of the sequence with type "
                    f"{type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                kept = Parameter(tensor.detach().clone(), original.requires_grad)
                self.register_parameter(f"original{place}", kept)
            else:
                self.register_buffer(f"original{place}", tensor)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{place}") for place in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Change the originals so that the parametrized tensor becomes `value`."""
        with torch.no_grad():
            new: Any = value
            for module in reversed([*self]):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            values = [new] if self.is_tensor else [*new]
            if len(values) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(values)}."
                )
            for place, (original, tensor) in enumerate(zip(self._originals(), values, strict=True)):
                check_original(original, tensor, "" if self.is_tensor else str(place))
                original.data = tensor.detach().clone()

    def forward(self) -> Tensor:
        """Compute the parametrized tensor."""
        first, *others = self
        x = first(*self._originals())
        for module in others:
            x = module(x)
        return x


def check_original(original: Tensor, tensor: Any, place: str) -> None:
    """Raise unless a tensor can be the new original."""
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"`right_inverse` should return a tensor. Got {type(tensor).__name__}"
            if not place
            else f"`right_inverse` must return a sequence of tensors. Got element {place} of type "
            f"{type(tensor).__name__}"
        )
    if original.dtype != tensor.dtype:
        name = f"original{place}"
        raise ValueError(
            f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while `{name}` has "
            f"dtype {original.dtype}"
        )


def check_unchanged(new: Any, original: Tensor) -> None:
    """Raise when a parametrization changes what a tensor is."""
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(new, what) != getattr(original, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized {what}: {getattr(original, what)}\n"
                f"parametrized {what}: {getattr(new, what)}"
            )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """Copy the fields into an object of the same (injected) class."""
    if id(self) not in memo:
        memo[id(self)] = replica = self.__new__(type(self))
        replica.__dict__ = deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
            if hasattr(self, slot):
                setattr(replica, slot, deepcopy(getattr(self, slot), memo))
    return memo[id(self)]


def _refuse_pickle(self: Any) -> Any:
    raise RuntimeError(NOT_PICKLED)


def _inject_new_class(module: Module) -> None:
    """Give a module a class of its own, to which properties can be added."""
    cls = type(module)
    fields: dict[str, Any] = {"__getstate__": _refuse_pickle}
    # Without it `deepcopy` would go through __getstate__.
    fields["__deepcopy__"] = getattr(cls, "__deepcopy__", _deepcopy)
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), fields)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Make the name a property that is computed."""

    def get(self: Module) -> Any:
        if not _Cache.depth:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if key not in _Cache.values:
            _Cache.values[key] = self.parametrizations[tensor_name]()
        return _Cache.values[key]

    def set_(self: Module, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set_))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module from now on; return `module`.

    Args:
        tensor_name: the name in `module`; a second parametrization is put behind the first.
        parametrization: its `forward` gets the original tensor; its `right_inverse`, if there is
            one, gives the original of a tensor (or several), and makes assignment possible.
        unsafe: allow another dtype or shape.

    Example:
        >>> class Positive(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.exp()
        ...     def right_inverse(self, x):
        ...         return x.log()
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad():
        ...     _ = layer.weight.fill_(1.0)
        >>> layer = register_parametrization(layer, "weight", Positive())
        >>> layer.weight.item(), [*layer.state_dict()]
        (1.0, ['parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        if not unsafe:
            check_added(parametrization, getattr(module, tensor_name))
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def check_added(parametrization: Module, value: Tensor) -> None:
    """Raise when a parametrization behind others changes what the tensor is."""
    check_unchanged(parametrization(value), value)
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(value)
        except NotImplementedError:
            return
        if not isinstance(back, Tensor):
            raise ValueError(
                "parametrization.right_inverse must return a tensor when it is registered on a "
                f"parametrized tensor. Got: {type(back).__name__}"
            )
        check_unchanged(back, value)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Say if a module, or one of its tensors, is parametrized."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    if tensor_name is None:
        return len(parametrizations) > 0
    return tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor an ordinary parameter or buffer again; return `module`.

    With `leave_parametrized` it keeps the value that it has, else it becomes the original.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with torch.no_grad():
                original.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    register_tensor(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def register_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Register a parameter, or a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module`, and equal originals.

    Args:
        tensor_name: transfer only this one.
    """
    if not is_parametrized(from_module):
        return to_module
    names = [*from_module.parametrizations] if tensor_name is None else [tensor_name]
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            register_tensor(to_module, name, getattr(from_module, name))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for place, original in enumerate(source._originals()):
            own = "original" if source.is_tensor else f"original{place}"
            with torch.no_grad():
                getattr(target, own).data = original.detach().clone()
    return to_module
