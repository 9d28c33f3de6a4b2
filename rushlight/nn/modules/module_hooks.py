"""The part of Module that registers hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.nn.modules.global_hooks import add_hook
from rushlight.nn.modules.module_walk import ModuleWalk

Hook = Callable[..., Any]


class _HookWithModule:
    """A hook that gets its module as the first argument, without keeping the module alive."""

    def __init__(self, hook: Hook, module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> tuple[Hook, Any]:
        return self.hook, self.module()

    def __setstate__(self, state: tuple[Hook, Any]) -> None:
        self.hook, module = state
        if module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.module = weakref.ref(module)


MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use "
    "only one of them."
)


class ModuleHooks(ModuleWalk):
    """`register_*` methods; each returns a RemovableHandle."""

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments.

        `with_kwargs` makes it `hook(module, args, kwargs)`, which returns both or None.
        """
        marks = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return add_hook(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        `with_kwargs` makes it `hook(module, args, kwargs, output)`. `always_call` calls it also
        when forward or another hook raises.
        """
        marks = (self._forward_hooks_with_kwargs,) if with_kwargs else ()
        marks += (self._forward_hooks_always_called,) if always_call else ()
        return add_hook(self._forward_hooks, hook, prepend, marks)

    def register_full_backward_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, grad_output)`; what it returns replaces the gradient."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(
        self, hook: Hook, prepend: bool = False
    ) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, grad_input, grad_output)`; it may return another grad_input."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(MIXED)
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """The old kind: `grad_input` is that of the last operation inside the module."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(MIXED)
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` reads this module."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)`; it changes it in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """As the post hook, but it may also return another state dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> torch.utils.hooks.RemovableHandle:
        """Call `hook` with the arguments of `_load_from_state_dict`, before it."""
        wrapped = _HookWithModule(hook, self) if with_module else hook
        return add_hook(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, *arguments of _load_from_state_dict)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Hook) -> torch.utils.hooks.RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and all below are loaded."""
        return add_hook(self._load_state_dict_post_hooks, hook)
