"""Which modules of a tree become units of their own: policies, and the walk that asks them.

A policy is called with a module, its unwrapped parameters' number of elements, and `recurse`: may
the walk go below this module (True), or shall this module be wrapped (False)?
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)
__all__ = [
    "always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy",
    "size_based_auto_wrap_policy", "enable_wrap", "wrap", "CustomPolicy", "ModuleWrapPolicy",
    "_or_policy",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """All of them."""
    return True


def lambda_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Any], bool]
) -> bool:
    """Those for which `lambda_fn` is true."""
    return True if recurse else lambda_fn(module)


def _module_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, module_classes: Iterable[type]
) -> bool:
    """Those of these classes."""
    return True if recurse else isinstance(module, tuple(module_classes))


def transformer_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type]
) -> bool:
    """Those of these classes: the layers of a transformer."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


# Of a policy by size: classes that are left whole, and those that are never wrapped.
_WHOLE, _NEVER = frozenset(("MultiheadAttention",)), frozenset(("ModuleList", "ModuleDict"))


def _class_names(kinds: Iterable[type] | None, default: frozenset[str]) -> frozenset[str]:
    return default if kinds is None else frozenset(kind.__name__ for kind in kinds)


def size_based_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: Iterable[type] | None = None,
    exclude_wrap_modules: Iterable[type] | None = None,
) -> bool:  # fmt: skip
    """Those with `min_num_params` elements or more that no smaller unit holds."""
    skipped = (
        _class_names(force_leaf_modules, _WHOLE)
        if recurse
        else _class_names(exclude_wrap_modules, _NEVER)
    )
    return nonwrapped_numel >= min_num_params and type(module).__name__ not in skipped


def _or_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]
) -> bool:
    """Those that one of the policies wants."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


class ModuleWrapPolicy:
    """Those of these classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Those for which `lambda_fn` gives True, or a dict of settings for the unit."""

    def __init__(self, lambda_fn: Callable[[Any], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        found = True if recurse else self._lambda_fn(module)
        if not isinstance(found, bool | dict):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, "
                f"but it returned {found}"
            )
        return found


class _Wrapping:
    """What `enable_wrap` set: a class and its settings, or nothing."""

    current: tuple[Callable[..., Any], dict[str, Any]] | None = None


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap(module)` makes a unit of the module."""
    before, _Wrapping.current = _Wrapping.current, (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _Wrapping.current = before


def wrap(module: Any, **wrap_overrides: Any) -> Any:
    """The module in the wrapper of `enable_wrap`; as it is outside of that."""
    if _Wrapping.current is None:
        return module
    kind, settings = _Wrapping.current
    return kind(module, **{**settings, **wrap_overrides})


def wrap_below(
    module: Any, policy: Callable[..., Any], wrapper: Callable[..., Any],
    ignored: Iterable[Any] = (),
) -> None:  # fmt: skip
    """Make units of modules below this one."""
    _Walk(policy, wrapper, set(map(id, ignored))).below(module)


class _Walk:
    def __init__(self, policy: Any, wrapper: Any, ignored: set[int]) -> None:
        self.policy, self.wrapper, self.ignored = policy, wrapper, ignored
        self.seen: dict[int, tuple[Any, int]] = {}

    def below(self, module: Any) -> int:
        """Wrap below; gives how many elements are wrapped now."""
        wrapped = 0
        for name, child in list(module._modules.items()):
            if child is not None and id(child) not in self.ignored:
                unit, count = self.one(child)
                wrapped += count
                if unit is not child:
                    setattr(module, name, unit)
        return wrapped

    def one(self, module: Any) -> tuple[Any, int]:
        if id(module) in self.seen:
            return self.seen[id(module)][0], 0
        count = sum(p.numel() for p in module.parameters())
        result = (module, 0)
        if self.policy(module=module, recurse=True, nonwrapped_numel=count):
            inner = self.below(module)
            chosen = self.policy(module=module, recurse=False, nonwrapped_numel=count - inner)
            settings = chosen if isinstance(chosen, dict) else {}
            wanted = bool(chosen) or isinstance(chosen, dict)
            result = (self.wrapper(module, **settings), count) if wanted else (module, inner)
        self.seen[id(module)] = result
        return result
