"""Module: the base of all layers and models.

Gets attributes that are parameters, buffers or modules, and keeps them by name. Gives the tree
of modules: its tensors, its state dict, its hooks. The parts live in `module_walk`,
`module_convert`, `module_state`, `module_hooks` and `module_call`; here are registration and
`repr`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn.modules import global_hooks
from rushlight.nn.modules.global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.modules.module_call import ModuleCall
from rushlight.nn.modules.module_convert import ModuleConvert
from rushlight.nn.modules.module_hooks import ModuleHooks
from rushlight.nn.modules.module_state import (
    EXTRA_STATE_KEY,
    ModuleState,
    _IncompatibleKeys,
)
from rushlight.nn.parameter import Buffer, Parameter

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX", "_global_backward_hooks", "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks", "_global_forward_hooks", "_global_forward_pre_hooks",
    "_global_module_registration_hooks", "_global_parameter_registration_hooks",
    "_IncompatibleKeys", "Module", "register_module_backward_hook",
    "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

# PyTorch's names of the hooks of all modules.
_global_parameter_registration_hooks = global_hooks.parameter_registration
_global_buffer_registration_hooks = global_hooks.buffer_registration
_global_module_registration_hooks = global_hooks.module_registration
_global_forward_pre_hooks, _global_forward_hooks = global_hooks.forward_pre, global_hooks.forward
_global_backward_pre_hooks, _global_backward_hooks = (
    global_hooks.backward_pre,
    global_hooks.backward,
)

_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE_KEY
FIELDS: dict[str, Callable[[], Any]] = {
    "_parameters": dict,
    "_buffers": dict,
    "_non_persistent_buffers_set": set,
    "_backward_pre_hooks": OrderedDict,
    "_backward_hooks": OrderedDict,
    "_is_full_backward_hook": lambda: None,
    "_forward_hooks": OrderedDict,
    "_forward_hooks_with_kwargs": OrderedDict,
    "_forward_hooks_always_called": OrderedDict,
    "_forward_pre_hooks": OrderedDict,
    "_forward_pre_hooks_with_kwargs": OrderedDict,
    "_state_dict_hooks": OrderedDict,
    "_state_dict_pre_hooks": OrderedDict,
    "_load_state_dict_pre_hooks": OrderedDict,
    "_load_state_dict_post_hooks": OrderedDict,
    "_modules": dict,
}


def indent_tail(text: str, width: int) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n" + " " * width)


class Module(ModuleCall, ModuleConvert, ModuleState, ModuleHooks):
    """Base class of layers and models: assign submodules in `__init__`, compute in `forward`.

    Example:
        >>> class Double(Module):
        ...     def forward(self, x):
        ...         return x * 2
        >>> Double()(3)
        6
    """

    training: bool
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create the empty registries; `call_super_init` hands the arguments to the next class."""
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument "
                f"but {len(args) + 1} were given"
            )
        # Straight into __dict__: __setattr__ needs the registries that are made here.
        self.__dict__["training"] = True
        for name, make in FIELDS.items():
            self.__dict__[name] = make()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # --- registration ---------------------------------------------------------------------

    def _check_name(self, name: Any, what: str, registry: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {torch.typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(
        self, name: str, tensor: torch.Tensor | None, persistent: bool = True
    ) -> None:
        """Add a tensor that is state but not a parameter; `persistent` puts it in `state_dict`."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = global_hooks.registered(
            global_hooks.buffer_registration, self, name, tensor
        )
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None to reserve its name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{torch.typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        if param is not None:
            param = global_hooks.registered(global_hooks.parameter_registration, self, name, param)
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module below this one."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{torch.typename(module)} is not a Module subclass")
        if isinstance(name, str) and "." in name and not hasattr(self, name):
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        self._check_name(name, "module", self._modules)
        self._set_module(name, module)

    def _set_module(self, name: str, module: Module | None) -> None:
        self._modules[name] = global_hooks.registered(
            global_hooks.module_registration, self, name, module
        )

    register_module = add_module

    # --- attributes -----------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Look into the registries; Python comes here only when `__dict__` has no such name."""
        fields = self.__dict__
        # In these words: a compiled call follows them to the tensors that the code names.
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry in fields and name in fields[registry]:
                return fields[registry][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name: str, keep: dict[str, Any]) -> None:
        """Remove `name` from wherever it is but `keep`, so that each name means one thing."""
        for registry in (self.__dict__, self._parameters, self._buffers, self._modules):
            if registry is not keep:
                registry.pop(name, None)
        if keep is not self._buffers:
            self._non_persistent_buffers_set.discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Register parameters, modules and buffers; everything else is a plain attribute."""
        fields = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in fields:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._parameters)
            self.register_parameter(name, value)
        elif name in fields.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in fields:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._modules)
            self._set_module(name, value)
        elif name in fields.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._set_module(name, value)
        elif isinstance(value, Buffer) or name in fields.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            if "_buffers" not in self.__dict__:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, self._buffers)
            self.register_buffer(name, value, value.persistent)
        else:
            self._buffers[name] = global_hooks.registered(
                global_hooks.buffer_registration, self, name, value
            )

    def __delattr__(self, name: str) -> None:
        """Remove a registered name or a plain attribute."""
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        """List attributes and registered names that can be written behind a dot."""
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(name for name in names if not name[:1].isdigit())

    # --- copies and text ------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle all fields but the compiled call."""
        state = dict(self.__dict__)
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the fields; registries that an old pickle lacks start empty."""
        self.__dict__.update(state)
        for name, make in FIELDS.items():
            if name not in self.__dict__:
                self.__dict__[name] = make()

    def extra_repr(self) -> str:
        """Return the settings to print between the parentheses; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        """Print the tree of modules."""
        settings = self.extra_repr()
        lines = settings.split("\n") if settings else []
        children = [
            f"({name}): {indent_tail(repr(module), 2)}" for name, module in self._modules.items()
        ]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({settings})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
