"""The part of Module that is the call: `forward`, and the hooks around it.

The order of a call: forward pre-hooks, the boundary of backward hooks, `forward`, forward hooks,
the other boundary. Of each kind the hooks of all modules come before the module's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch
from rushlight.nn.modules import global_hooks
from rushlight.nn.modules.backward_hooks import BackwardCall
from rushlight.nn.modules.module_walk import ModuleWalk
from rushlight.tensors.loop_turns import call_begins

Hook = Callable[..., Any]
# A compiled call, which replays without this code, looks at these, too.
GUARDED = global_hooks.CALL_HOOKS


class ModuleCall(ModuleWalk):
    """Calling a module."""

    _compiled_call_impl: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and the hooks around it; without hooks at almost no cost."""
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or any(global_hooks.CALL_HOOKS)
        ):
            call_begins(self)
            return self.forward(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and the hooks; this is what `compile` compiles."""
        called: set[int] = set()
        call_begins(self)
        try:
            return self._call_with_hooks(args, kwargs, called)
        except Exception:
            self._call_remaining_hooks(args, kwargs, called)
            raise

    def _call_with_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
    ) -> Any:
        args, kwargs = self._run_pre_hooks(args, kwargs)
        full, old = self._backward_hooks_by_kind()
        pre_hooks = [*global_hooks.backward_pre.values(), *self._backward_pre_hooks.values()]
        backward = None
        if full or pre_hooks:
            backward = BackwardCall(self, full, pre_hooks)
            args = backward.wrap_inputs(args)

        result = self.forward(*args, **kwargs)
        for hook_id, hook, with_kwargs, _ in self._all_forward_hooks():
            called.add(hook_id)
            more = (kwargs,) if with_kwargs else ()
            returned = hook(self, args, *more, result)
            result = result if returned is None else returned
        result = result if backward is None else backward.wrap_output(result)
        if old:
            hook_last_operation(self, old, result)
        return result

    def _run_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hooks = [*global_hooks.forward_pre.items(), *self._forward_pre_hooks.items()]
        for hook_id, hook in hooks:
            if hook_id in self._forward_pre_hooks_with_kwargs:
                returned = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if returned is None else both(returned)
            else:
                returned = hook(self, args)
                if returned is not None:
                    args = returned if isinstance(returned, tuple) else (returned,)
        return args, kwargs

    def _all_forward_hooks(self) -> Iterator[tuple[int, Hook, bool, bool]]:
        """Each hook with its id, and if it takes keyword arguments and is always called."""
        groups = (
            (
                global_hooks.forward,
                global_hooks.forward_with_kwargs,
                global_hooks.forward_always_called,
            ),
            (
                self._forward_hooks,
                self._forward_hooks_with_kwargs,
                self._forward_hooks_always_called,
            ),
        )
        for hooks, with_kwargs, always_called in groups:
            for hook_id, hook in [*hooks.items()]:
                yield hook_id, hook, hook_id in with_kwargs, hook_id in always_called

    def _backward_hooks_by_kind(self) -> tuple[list[Hook], list[Hook]]:
        """The full hooks, and those of the old kind."""
        full = [*global_hooks.backward.values()]
        old = [*global_hooks.old_backward.values()]
        own = full if self._is_full_backward_hook is not False else old
        own.extend(self._backward_hooks.values())
        return full, old

    def _call_remaining_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
    ) -> None:
        """After an error: run the hooks that want to run always, with None as the result."""
        for hook_id, hook, with_kwargs, always in self._all_forward_hooks():
            if hook_id in called or not always:
                continue
            more = (kwargs,) if with_kwargs else ()
            try:
                hook(self, args, *more, None)
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=2,
                )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the call of this module in place, as `torch.compile(module)` does."""
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)


def both(returned: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Check what a forward pre-hook with keyword arguments returned."""
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    raise RuntimeError(
        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
        f"but got {returned}."
    )


def hook_last_operation(module: Any, hooks: list[Hook], result: Any) -> None:
    """Put hooks of the old kind on the operation that made the (first) result."""
    while not isinstance(result, torch.Tensor):
        if not result:
            return
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    if result.grad_fn is None:
        return

    def bound(hook: Hook) -> Hook:
        return lambda grad_input, grad_output: hook(module, grad_input, grad_output)

    for hook in hooks:
        result.grad_fn.register_hook(bound(hook))
