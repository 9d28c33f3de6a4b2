"""A unit: the parameters that are brought together for one module's forward, and laid out again.

In: modules, the dtypes of a policy. Out: while the forward runs, the modules hold plain tensors:
the same memory and gradient as the laid out ones, cast where the policy says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as torch
from rushlight.distributed.tensor.dtensor import DTensor, plain


def cast_tensors(values: Any, dtype: Any) -> Any:
    """Tensors of numbers with a point, also in containers, as `dtype`."""
    if dtype is None:
        return values

    def cast(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if floating else value

    return torch.utils._pytree.tree_map(cast, values)


class Unit:
    """The parameters of `modules`, each at the places where it is held.

    reduce_dtype: gradients are rounded to it on their way, as where they are sent.
    """

    def __init__(
        self, modules: Iterable[Any], param_dtype: Any = None, reduce_dtype: Any = None,
        ignored: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.places = [
            (module._parameters, name, param)
            for module in modules
            for name, param in module._parameters.items()
            if param is not None and id(param) not in ignored
        ]
        self.depth, self.gathered = 0, False

    def lay_out(self, make: Callable[[Any], Any]) -> None:
        """Put what `make` gives in the place of each parameter."""
        made: dict[int, Any] = {}
        for at, (table, name, param) in enumerate(self.places):
            if id(param) not in made:
                made[id(param)] = make(param)
            table[name] = made[id(param)]
            self.places[at] = (table, name, table[name])

    def _whole(self, param: Any) -> Any:
        whole = param
        if isinstance(param, DTensor):
            whole = param.as_subclass(torch.nn.Parameter)
        dtype = self.param_dtype
        if dtype is None or not param.is_floating_point() or dtype == param.dtype:
            return whole
        whole = whole.to(dtype)
        narrow = self.reduce_dtype
        if narrow is not None and narrow.itemsize < dtype.itemsize and whole.requires_grad:
            whole.register_hook(lambda grad: grad.to(narrow).to(dtype))
        return whole

    def gather(self) -> None:
        """The modules hold plain tensors from here on."""
        self.depth += 1
        if self.depth > 1:
            return
        made: dict[int, Any] = {}
        for place, (table, name, param) in enumerate(self.places):
            if table.get(name) is not param:  # somebody put another one there
                self.places[place] = (table, name, param := table[name])
            if id(param) not in made:
                made[id(param)] = self._whole(param)
            table[name] = made[id(param)]

    def spread(self) -> None:
        """The modules hold the laid out tensors again."""
        self.depth -= 1
        if self.depth == 0:
            for table, name, param in self.places:
                table[name] = param

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, the modules hold plain tensors."""
        self.gather()
        try:
            yield
        finally:
            self.spread()

    @property
    def changes(self) -> bool:
        """Is there anything to do around a forward?"""
        return self.param_dtype is not None or any(
            isinstance(param, DTensor) for _, _, param in self.places
        )


def mark_managed(tensor: DTensor) -> DTensor:
    """From here on functions of plain tensors may be given this one: a second run of a forward."""
    tensor._is_managed = True
    return tensor


__all__ = ["Unit", "cast_tensors", "mark_managed", "plain"]
