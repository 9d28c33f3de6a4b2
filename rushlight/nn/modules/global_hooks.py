"""Hooks of all modules at once, and the handles that add and remove hooks.

They run before those of the module itself, in the order in which they were added.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import rushlight as torch

Hook = Callable[..., Any]
Handle = Any  # a torch.utils.hooks.RemovableHandle
Hooks = OrderedDict[int, Hook]

forward_pre: Hooks = OrderedDict()
forward: Hooks = OrderedDict()
forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
forward_always_called: OrderedDict[int, bool] = OrderedDict()
backward_pre: Hooks = OrderedDict()
backward: Hooks = OrderedDict()
old_backward: Hooks = OrderedDict()  # the kind that sees only the last operation of a module
buffer_registration: Hooks = OrderedDict()
module_registration: Hooks = OrderedDict()
parameter_registration: Hooks = OrderedDict()

CALL_HOOKS = (forward_pre, forward, backward_pre, backward, old_backward)
MIXED = (
    "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
    "Please use only one of them."
)


def add_hook(
    hooks: OrderedDict[int, Any],
    hook: Hook,
    prepend: bool = False,
    marks: tuple[OrderedDict[int, bool], ...] = (),
) -> Handle:
    """Add `hook` at the end, or first with `prepend`, and set each mark for it."""
    handle = torch.utils.hooks.RemovableHandle(hooks, extra_dict=marks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for mark in marks:
        mark[handle.id] = True
    return handle


def registered(hooks: Hooks, module: Any, name: str, value: Any) -> Any:
    """What is registered under a name, after the registration hooks saw it."""
    for hook in hooks.values():
        returned = hook(module, name, value)
        value = value if returned is None else returned
    return value


def register_module_forward_pre_hook(hook: Hook) -> Handle:
    """Call `hook(module, args)` before `forward` of every module; it may return other args."""
    return add_hook(forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> Handle:
    """Call `hook(module, args, output)` after `forward` of every module.

    `with_kwargs` makes it `hook(module, args, kwargs, output)`; `always_call` calls it also when
    `forward` raises.
    """
    marks = (forward_with_kwargs,) if with_kwargs else ()
    marks += (forward_always_called,) if always_call else ()
    return add_hook(forward, hook, marks=marks)


def register_module_full_backward_pre_hook(hook: Hook) -> Handle:
    """Call `hook(module, grad_output)` when the gradients of a module's outputs are known."""
    return add_hook(backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> Handle:
    """Call `hook(module, grad_input, grad_output)` when a module's gradients are known."""
    if old_backward:
        raise RuntimeError(MIXED)
    return add_hook(backward, hook)


def register_module_backward_hook(hook: Hook) -> Handle:
    """The old kind: `grad_input` is that of the last operation inside the module."""
    if backward:
        raise RuntimeError(MIXED)
    return add_hook(old_backward, hook)


def register_module_buffer_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, buffer)` when a buffer is registered; it may return another one."""
    return add_hook(buffer_registration, hook)


def register_module_module_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, submodule)` when a module is added; it may return another one."""
    return add_hook(module_registration, hook)


def register_module_parameter_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, param)` when a parameter is added; it may return another one."""
    return add_hook(parameter_registration, hook)
