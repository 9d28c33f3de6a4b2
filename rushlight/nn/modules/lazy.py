"""LazyModuleMixin: modules that take the sizes of their parameters from their first input."""

from __future__ import annotations

import itertools
from typing import Any

import rushlight as torch
from rushlight.nn.parameter import is_lazy


class LazyModuleMixin:
    """Put before a Module class; the class then has parameters without a shape.

    A subclass defines `initialize_parameters(*args, **kwargs)`, which gets the arguments of the
    first call and materializes the parameters. After it the module is of class `cls_to_become`.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _lazy_tensors(self) -> Any:
        return itertools.chain(self._parameters.items(), self._buffers.items())

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Save as Module does; what has no shape is saved as it is."""
        for name, tensor in self._lazy_tensors():
            if tensor is None or name in self._non_persistent_buffers_set:
                continue
            keeps = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if keeps else tensor.detach()

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *unused: Any) -> None:
        """Take the shapes from a state dict that has some."""
        for name, tensor in self._lazy_tensors():
            key = prefix + name
            if is_lazy(tensor) and key in state_dict and not is_lazy(state_dict[key]):
                with torch.no_grad():
                    tensor.materialize(state_dict[key].shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for a first input; subclasses define it."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Say if a parameter or buffer has no shape yet."""
        return any(is_lazy(tensor) for _, tensor in self._lazy_tensors())

    def _infer_parameters(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        """Before the first call: give the parameters their shapes, and stop being lazy."""
        module.initialize_parameters(*args, **({} if kwargs is None else kwargs))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
