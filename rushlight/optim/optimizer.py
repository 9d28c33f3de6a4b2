"""Optimizer: the base class, with parameter groups, state, hooks, saving and loading.

Always true here: `load_state_dict` copies every tensor, so an optimizer never shares memory with
the dict it was loaded from; and each `step` ends with a flush of the recorded operations.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import rushlight as torch

__all__ = [
    "Optimizer", "ParamsT", "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]  # fmt: skip

Params = ParamsT = Iterable[Any]  # PyTorch's name is ParamsT
Hook = Callable[..., Any]
Handle = Any  # a torch.utils.hooks.RemovableHandle


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
HOOK_FIELDS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


# Hooks of the steps of all optimizers.
_global_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_post_hooks: OrderedDict[int, Hook] = OrderedDict()
# A compiled call, which replays without this code, looks at these, too.
GUARDED = (_global_pre_hooks, _global_post_hooks)


def register_optimizer_step_pre_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return add_hook(_global_post_hooks, hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Run the step hooks around a `step` method, and flush after it."""

    @functools.wraps(step)
    def hooked_step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        # A subclass calls super().step(); or it wraps another optimizer, and made itself without
        # the constructor of this class.
        if own.get("_is_stepping", False) or "_optimizer_step_pre_hooks" not in own:
            return step(self, *args, **kwargs)
        self._is_stepping = True
        self._opt_called = True  # schedulers check the order of calls with it
        try:
            out = self._step_with_hooks(step, args, kwargs)
        finally:
            self._is_stepping = False
        if hasattr(torch, "flush"):
            torch.flush()
        return out

    return hooked_step


class Optimizer:
    """Base class of optimizers; a subclass defines `step`.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight], lr=0.5)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.5000])
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the `step` of each subclass, also of those written by users."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        """Take parameters, named parameters or groups of them, and default options."""
        self.defaults = defaults
        self._make_hook_fields()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {torch.typename(params)}"
            )
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if len(groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_fields(self) -> None:
        for name in HOOK_FIELDS:
            self.__dict__.setdefault(name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy options, state and groups; hooks stay behind."""
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the fields; options that an older version did not have get their default."""
        self.__dict__.update(state)
        self._make_hook_fields()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        """Print the options of each group."""
        text = f"{type(self).__name__} ("
        for place, group in enumerate(self.param_groups):
            text += f"\nParameter Group {place}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # --- groups ---------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options; missing options get the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        param_group.update(self._checked_params(param_group["params"]))
        for param in param_group["params"]:
            self._check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        self._check_against_groups(param_group)
        self.param_groups.append(param_group)

    @staticmethod
    def _checked_params(params: Any) -> dict[str, list[Any]]:
        """Return the list of parameters and, where they came in pairs, of names."""
        if isinstance(params, torch.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. "
                "Please use a list instead."
            )
        entries = list(params)
        names = [entry[0] for entry in entries if isinstance(entry, tuple)]
        tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        if not names:
            return {"params": tensors}
        if len(names) != len(tensors):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        return {"params": tensors, "param_names": names}

    def _check_param(self, param: Any) -> None:
        if not isinstance(param, torch.Tensor):
            raise TypeError(
                "optimizer can only optimize Tensors, "
                f"but one of the params is {torch.typename(param)}"
            )
        if self.defaults.get("differentiable") or param.is_leaf or param.retains_grad:
            return
        raise ValueError("can't optimize a non-leaf Tensor")

    def _check_against_groups(self, param_group: dict[str, Any]) -> None:
        new = {id(param) for param in param_group["params"]}
        if len(new) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {kind} to the optimizer"
                )
        if any(id(param) in new for group in self.param_groups for param in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    # --- step -----------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters; `closure` computes the loss and its gradients again."""
        raise NotImplementedError

    def _patch_step_function(self) -> None:
        """PyTorch's name of what puts the hooks around `step`; a subclass that makes itself without
        `__init__` calls it. Here the class has them from the start."""
        for field in HOOK_FIELDS:
            self.__dict__.setdefault(field, OrderedDict())

    def _step_with_hooks(
        self, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        args = (self, *args)
        for hook in [*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {result}."
                )
            args, kwargs = result
        out = step(*args, **kwargs)
        for hook in [*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()]:
            hook(self, args, kwargs)
        return out

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                clear_grad(param.grad)

    # --- hooks ----------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return both anew."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict`."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another one."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # --- saving and loading -----------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state by parameter number, and the groups with numbers for parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            numbers.setdefault(id(param), len(numbers))
        groups = [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [numbers[id(param)] for param in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {
            numbers[id(key)] if isinstance(key, torch.Tensor) else key: value
            for key, value in self.state.items()
        }
        state_dict: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            returned = hook(self, state_dict)
            state_dict = state_dict if returned is None else returned
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take copies of a saved state, converted to the dtype and device of each parameter."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            returned = hook(self, state_dict)
            state_dict = state_dict if returned is None else returned

        saved_groups = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(a["params"]) != len(b["params"])
            for a, b in zip(self.param_groups, saved_groups, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        saved_numbers = chain.from_iterable(group["params"] for group in saved_groups)
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        param_of = dict(zip(saved_numbers, params, strict=True))

        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        copied_steps: dict[tuple[int, Any], torch.Tensor] = {}
        for number, value in state_dict["state"].items():
            if number in param_of:
                state[param_of[number]] = copy_state(param_of[number], value, copied_steps)
            else:
                state[number] = deepcopy(value)
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


def add_hook(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> Handle:
    """Add `hook` at the end, or first with `prepend`."""
    handle = torch.utils.hooks.RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def clear_grad(grad: torch.Tensor) -> None:
    """Fill a gradient with zeros, in place, and cut it from the graph that made it."""
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()


def copy_state(
    param: torch.Tensor,
    value: Any,
    copied_steps: dict[tuple[int, Any], torch.Tensor],
    key: Hashable = None,
) -> Any:
    """Copy one parameter's state; step counters that were one tensor stay one tensor."""
    if key == "step" and isinstance(value, (int, float)):  # how old checkpoints count
        value = torch.tensor(float(value), dtype=torch.float32)
    if isinstance(value, torch.Tensor):
        if key == "step":
            place = (id(value), param.device)
            if place not in copied_steps:
                copied_steps[place] = fresh_copy(value, param.device, torch.float32)
            return copied_steps[place]
        return fresh_copy(value, param.device, param.dtype if param.is_floating_point() else None)
    if isinstance(value, dict):
        return {name: copy_state(param, item, copied_steps, name) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(copy_state(param, item, copied_steps) for item in value)
    return value


def fresh_copy(
    tensor: torch.Tensor, device: torch.device, dtype: torch.dtype | None
) -> torch.Tensor:
    """Convert into memory of its own, also when there is nothing to convert."""
    return tensor.detach().clone().to(device=device, dtype=dtype)
