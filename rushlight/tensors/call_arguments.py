"""Arguments of a call that is captured: their values at its start, and whether it changed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.pytree import flatten
from rushlight.engine.capture import Session
from rushlight.engine.live import Ref
from rushlight.engine.realize import flush
from rushlight.tensors.tensor import Tensor


def arguments_in_memory(session: Session, tensors: Sequence[Tensor]) -> list[Ref]:
    """Views, and foreign memory, are given to the program as the values they have now.

    Gives holders of these values, so that no flush reuses their memory while the call runs.
    """
    holders = []
    for number, tensor in enumerate(tensors):
        foreign = tensor._storage.foreign is not None
        if tensor._view is None and not foreign:
            continue
        node = tensor._value()
        flush((node,))
        holders.append(Ref(node))
        session.known[holders[-1]] = node
        session.views[node] = number
        if tensor._view is not None:
            part = (tensor._storage.node, tensor._view.steps, node)
            session.parts.setdefault(tensor._storage, []).append(part)
        if foreign and tensor._view is None:
            session.foreign[tensor._storage] = node
    return holders


def changed_arguments(leaves: list, spec: Any, args: tuple, kwargs: dict) -> str:
    """Did the call change a list or dict that it was given?"""
    now, shape = flatten((args, kwargs))
    same = shape == spec and all(a is b for a, b in zip(now, leaves, strict=True))
    return "" if same else "a container that it was given"


def changed_attributes(before: Sequence[tuple[Tensor, dict]], result: Any) -> str:
    """Did the call give a tensor an attribute, or take one away? A replay would not."""
    known = {id(tensor) for tensor, _ in before}
    made = [t for t in flatten(result)[0] if isinstance(t, Tensor) and id(t) not in known]
    for tensor, own in (*before, *((t, {}) for t in made)):
        now = tensor.__dict__
        if now.keys() != own.keys() or any(now[name] is not value for name, value in own.items()):
            return "an attribute of a tensor"
    return ""
