"""The part of Module that saves and loads: `state_dict` and `load_state_dict`."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module_walk import ModuleWalk
from rushlight.nn.parameter import Parameter, is_lazy

EXTRA_STATE_KEY = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def quoted(keys: list[str]) -> str:
    """Join keys for an error message."""
    return ", ".join(f'"{key}"' for key in keys)


class ModuleState(ModuleWalk):
    """Saving and loading of the parameters and persistent buffers."""

    _version: int = 1

    def get_extra_state(self) -> Any:
        """Return more state for `state_dict`; a class that has some overrides this."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _overrides(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(ModuleState, method)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Write this module's own tensors, not those of the modules below."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Return all parameters and persistent buffers by dotted name.

        The tensors share memory with the module. `keep_vars` keeps them in the graph.
        """
        if args:  # the old positional form: destination, prefix, keep_vars
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata

        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            replacement = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if replacement is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replacement is not None:
                destination = replacement
        return destination

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy into this module's own tensors; write what is wrong into the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        own = {name: tensor for name, tensor in self._parameters.items() if tensor is not None}
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                own[name] = buffer

        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                message = self._load_one(name, target, key, state_dict[key], assign)
                if message is not None:
                    error_msgs.append(message)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + EXTRA_STATE_KEY
        self._load_extra_state(state_dict, extra_key, strict, missing_keys, unexpected_keys)
        if strict:
            names = [key for key in state_dict if key.startswith(prefix) and key != extra_key]
            unexpected_keys.extend(k for k in names if not self._expects(k[len(prefix) :], own))

    def _load_extra_state(
        self,
        state_dict: dict[str, Any],
        key: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        if not self._overrides("set_extra_state"):
            if strict and key in state_dict:
                unexpected_keys.append(key)
        elif key in state_dict:
            self.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)

    def _expects(self, name: str, own: dict[str, Any]) -> bool:
        first, dot, _ = name.partition(".")
        return first in self._modules if dot else first in own

    def _load_one(
        self, name: str, target: torch.Tensor, key: str, source: Any, assign: bool
    ) -> str | None:
        """Copy or assign one tensor; return what went wrong."""
        if not isinstance(source, torch.Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(source)}"
            )
        if is_lazy(target) and is_lazy(source):  # neither has anything to copy
            return None
        if len(target.shape) == 0 and len(source.shape) == 1 and source.shape[0] == 1:
            source = source[0]
        if source.shape != target.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {source.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
        try:
            with torch.no_grad():
                if assign:
                    self._assign(name, target, source)
                else:
                    target.copy_(source)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{target.size()} and whose dimensions in the checkpoint are {source.size()}, "
                f"an exception occurred : {error.args}."
            )
        return None

    def _assign(self, name: str, target: torch.Tensor, source: torch.Tensor) -> None:
        if isinstance(target, Parameter):
            if isinstance(source, Parameter):
                source.requires_grad_(target.requires_grad)
            else:
                source = Parameter(source, requires_grad=target.requires_grad)
        setattr(self, name, source)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of `state_dict` into this module and all below it.

        `strict` raises when a key is missing or unknown. `assign` keeps the given tensors
        themselves instead of copying their values.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            state_dict._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, local_state: dict[str, Any], prefix: str) -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local_state,
                prefix,
                local_metadata,
                True,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(
                        child, {k: v for k, v in local_state.items() if k.startswith(below)}, below
                    )
            incompatible = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, state_dict, "")
        if strict and unexpected_keys:
            error_msgs.insert(0, f"Unexpected key(s) in state_dict: {quoted(unexpected_keys)}. ")
        if strict and missing_keys:
            error_msgs.insert(0, f"Missing key(s) in state_dict: {quoted(missing_keys)}. ")
        if error_msgs:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(error_msgs)
            )
        return _IncompatibleKeys(missing_keys, unexpected_keys)
