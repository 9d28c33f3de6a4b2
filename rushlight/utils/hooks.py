"""The handle that removes a hook."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)

_next_id = itertools.count()


class RemovableHandle:
    """What every `register_*_hook` returns: `remove()` takes the hook away again.

    Example:
        >>> hooks = OrderedDict()
        >>> handle = RemovableHandle(hooks)
        >>> hooks[handle.id] = print
        >>> handle.remove()
        >>> len(hooks)
        0
    """

    def __init__(
        self, hooks_dict: OrderedDict[int, Any], *, extra_dict: Iterable[Any] | Any = ()
    ) -> None:
        """Take the next number; `extra_dict` is one or more dicts that also hold it."""
        extras = [extra_dict] if isinstance(extra_dict, OrderedDict) else list(extra_dict)
        self.id = next(_next_id)
        self._dicts = tuple(weakref.ref(hooks) for hooks in (hooks_dict, *extras))

    def remove(self) -> None:
        """Forget the hook; a second call does nothing."""
        for reference in self._dicts:
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[int, list[OrderedDict[int, Any] | None]]:
        """Keep the number and the dicts themselves: weak references cannot be pickled."""
        return self.id, [reference() for reference in self._dicts]

    def __setstate__(self, state: tuple[int, list[OrderedDict[int, Any] | None]]) -> None:
        """Point at the copied dicts."""
        self.id, dicts = state
        self._dicts = tuple(weakref.ref(OrderedDict() if d is None else d) for d in dicts)

    def __enter__(self) -> RemovableHandle:
        """Return the handle, for `with module.register_forward_hook(...)`."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the hook at the end of the block."""
        self.remove()
