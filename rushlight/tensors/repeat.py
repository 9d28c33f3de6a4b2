"""The update of an optimizer's group, made before: the same nodes, without its Python.

In: an optimizer, the parameters of a group that have a gradient, the group. Out: parameters and
states have their new values. The first time `_update` runs on a shadow of the optimizer, whose
tensors are placeholders, and the nodes that it makes are kept as a list of instructions
(ir/recipe.py). From then on, as long as options, tensors and their places are the same, the update
is that list, run over the values of now. A learning rate is read again each time (tracked.py).

Always true: what is repeated is what `_update` would record. Where that is not sure (a captured
call, history, memory of others, views, a value that may turn out not to exist) `_update` runs.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from rushlight.autograd.mode import STATE
from rushlight.base.devices import DEVICES
from rushlight.engine.bound import limit_pending
from rushlight.engine.capture import open_session
from rushlight.engine.origin import STATE as ORIGIN
from rushlight.engine.realize import PENDING
from rushlight.engine.undo import RISK
from rushlight.ir.node import Node, buffer_node, scalar_node
from rushlight.ir.recipe import Again, NotPlain, Recipe
from rushlight.tensors.autocast import STATE as AUTOCAST
from rushlight.tensors.direct import Direct
from rushlight.tensors.tensor import Grad, Tensor, new_tensor
from rushlight.tensors.tracked import ASKED, Tracked

_is = operator.is_
_grad = operator.attrgetter("_grad.grad")
_storage = operator.attrgetter("_storage")
_counter = operator.attrgetter("_counter")
_parts = operator.attrgetter("_shape", "_dtype", "_view", "_storage.foreign", "_storage.inference")
_node = operator.attrgetter("node")
_values = operator.methodcaller("values")

MOST_TRIES = 3
NO_STATE: Mapping[str, Any] = MappingProxyType({})
NUMBERS = frozenset((type(None), bool, int, float, str))
_KNOWN: WeakKeyDictionary[Any, dict[int, Known]] = WeakKeyDictionary()


class Known:
    """What is known of a group's updates. `tries`: to make one, since one was last repeated."""

    def __init__(self) -> None:
        self.update: Update | None = None
        self.tries = 0


def repeat_update(optimizer: Any, params: list[Any], group: dict[str, Any]) -> None:
    """`optimizer._update(params, group)`, perhaps as it was made before."""
    if not _is_special(optimizer) and len(params) == len(group["params"]):
        of_groups = _KNOWN.setdefault(optimizer, {})
        known = of_groups.setdefault(id(group), Known())
        if len(of_groups) > len(optimizer.param_groups):  # groups come and go with states
            groups = set(map(id, optimizer.param_groups))
            for gone in of_groups.keys() - groups:
                del of_groups[gone]
        if known.update is not None and known.update.fits(optimizer, params, group):
            known.tries = 0
        else:
            known.update = None
            if known.tries < MOST_TRIES:
                known.tries += 1
                known.update = _made(optimizer, params, group)
        if known.update is not None:
            known.update.run()
            return
    optimizer._update(params, group)


def _is_special(optimizer: Any) -> bool:
    return (
        open_session() is not None or STATE.grad or STATE.inference or STATE.anomaly
        or RISK.waits or ORIGIN.on or AUTOCAST.dtype is not None or DEVICES.used
        or optimizer.reads_values
    )  # fmt: skip


def _states_of(optimizer: Any, params: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The states of parameters; asking for one that is not there does not make it."""
    find = optimizer.state.get
    return [find(param, NO_STATE) for param in params]


def _tensors_of(optimizer: Any, params: Sequence[Any]) -> list[Any]:
    """Parameters, their gradients, and all tensors of their states."""
    held = [v for v in chain.from_iterable(map(_values, _states_of(optimizer, params)))
            if isinstance(v, Tensor)]  # fmt: skip
    return [*params, *map(_grad, params), *held]


class Update:
    """A kept update; see the module. `tensors`: all that it reads or changes, each once."""

    def __init__(self, optimizer: Any, params: list[Any], group: dict[str, Any]) -> None:
        self.method, self.state = type(optimizer)._update, optimizer.state
        self.params, self.names = list(params), list(group)
        self.rate_at = self.names.index("lr") if "lr" in group else None
        self.options = self._options(group)
        self.states = _states_of(optimizer, params)
        self.held = list(chain.from_iterable(map(_values, self.states)))
        self.held_names = list(chain.from_iterable(self.states))
        self.tensors = list(dict.fromkeys(_tensors_of(optimizer, params)))
        self.grads_at = [len(params) + i for i in range(len(params))]
        self.parts = list(map(_parts, self.tensors))
        self.predicates: list[tuple[Callable[[], Any], Any]] = []
        self.recipe = Recipe((), (), _number_again)
        self.changes: list[tuple[int, int, int]] = []  # tensor, place of its value, versions
        self.direct: Direct | None = None
        self.is_recorded = False  # each time: its program is not one of new values alone

    def _options(self, group: dict[str, Any]) -> list[Any]:
        values = list(group.values())
        if self.rate_at is not None and type(values[self.rate_at]) is float:
            values[self.rate_at] = float  # read again
        return values

    def fits(self, optimizer: Any, params: list[Any], group: dict[str, Any]) -> bool:
        """Is everything that `_update` reads as it was, but for values and the rate?"""
        return (
            len(params) == len(self.params)
            and all(map(_is, params, self.params))
            and type(optimizer)._update is self.method
            and optimizer.state is self.state
            and list(group) == self.names
            and all(map(_is, self._options(group), self.options))
            and all(map(_is, _states_of(optimizer, params), self.states))
            and list(chain.from_iterable(self.states)) == self.held_names
            and all(map(_is, chain.from_iterable(map(_values, self.states)), self.held))
            and self._tensors_fit(params)
            and not any([read() != answer for read, answer in self.predicates])
        )

    def _tensors_fit(self, params: list[Any]) -> bool:
        grads = list(map(_grad, params))
        if any(map(_is, grads, repeat(None))):
            return False
        count = len(params)
        self.tensors[count : 2 * count] = grads
        storages = list(map(_storage, self.tensors))
        try:
            return (
                len(set(storages)) == len(storages)
                and list(map(_parts, self.tensors)) == self.parts
                and all(map(_is, map(_counter, self.tensors), storages))
            )
        except ValueError:  # memory of others, compared by elements
            return False

    def run(self) -> None:
        """Make the update; `fits` was asked just before."""
        storages = list(map(_storage, self.tensors))
        self.forget_grads()
        if self.direct is not None and self.direct.run(storages):
            return
        nodes = list(map(_node, storages))
        values = self.recipe.run(nodes.copy())
        if self.direct is None and not self.is_recorded:
            self._prepare(nodes, values)
        for tensor, place, versions in self.changes:
            storage = storages[tensor]
            storage.hold(values[place])
            storage.version += versions
        if values[-1].serial >= PENDING.due:
            limit_pending(values[-1])

    def forget_grads(self) -> None:
        """Keep no gradient alive."""
        count = len(self.params)
        self.tensors[count : 2 * count] = [None] * count

    def _prepare(self, nodes: list[Node], values: list[Node]) -> None:
        """The next update may run without being recorded."""
        changes = [(i, values[place], versions) for i, place, versions in self.changes]
        in_memory = all(node.leaf == "buffer" for node in nodes)
        if in_memory and len(set(nodes)) == len(nodes):
            self.is_recorded = any(node.leaf for _, node, _ in changes)
            if not self.is_recorded:
                direct = Direct(nodes, changes)
                self.is_recorded = direct.may_fail
                self.direct = None if direct.may_fail else direct


def _made(optimizer: Any, params: list[Any], group: dict[str, Any]) -> Update | None:
    """Run `_update` on placeholders; None if it did more than changing values."""
    if not all(_is_number(value) for name, value in group.items() if name != "params"):
        return None  # a tensor: it may be changed where it is
    update = Update(optimizer, params, group)
    if not all(map(_is_plain, update.tensors)) or not update.fits(optimizer, params, group):
        return None
    shadow = _Shadow(optimizer, update)
    options = {**group, "params": shadow.params}
    if type(group.get("lr")) is float:
        options["lr"] = Tracked(group["lr"], lambda: group["lr"])
    before = [t._storage.version for t in shadow.tensors]
    ASKED.open = update.predicates
    try:
        shadow.optimizer._update(shadow.params, options)
        if not shadow.is_whole(update):
            return None
        slots, now = shadow.slots, [t._storage.node for t in shadow.tensors]
        changed = [i for i, (a, b) in enumerate(zip(slots, now, strict=True)) if a is not b]
        update.recipe = Recipe(slots, [now[i] for i in changed], _number_again)
    except NotPlain:
        return None
    finally:
        ASKED.open = None
    versions = [t._storage.version - v for t, v in zip(shadow.tensors, before, strict=True)]
    places = zip(changed, update.recipe.outputs, strict=True)
    update.changes = [(i, place, versions[i]) for i, place in places]
    return update


class _Shadow:
    """An optimizer like the given one, with placeholders in the places of values."""

    def __init__(self, optimizer: Any, update: Update) -> None:
        self.slots = [buffer_node(None, t._shape, t._dtype) for t in update.tensors]
        self.tensors = [new_tensor(slot) for slot in self.slots]
        of = {id(t): s for t, s in zip(update.tensors, self.tensors, strict=True)}
        count = len(update.params)
        self.params = self.tensors[:count]
        for param, grad in zip(self.params, self.tensors[count : 2 * count], strict=True):
            param._grad = Grad()
            param._grad.grad = grad
        self.states = [{k: of.get(id(v), v) for k, v in s.items()} for s in update.states]
        self.optimizer = object.__new__(type(optimizer))
        self.optimizer.__dict__.update(optimizer.__dict__)
        pairs = zip(self.params, self.states, strict=True)
        self.optimizer.state = defaultdict(dict, {param: {**state} for param, state in pairs})

    def is_whole(self, update: Update) -> bool:
        """Are states and gradients the objects that they were?"""
        now = list(self.optimizer.state.values())
        count = len(self.params)
        return (
            len(now) == count
            and [list(state) for state in now] == [list(state) for state in self.states]
            and all(
                a is b or (type(a) in NUMBERS and type(a) is type(b) and a == b)
                for new, old in zip(now, self.states, strict=True)
                for a, b in zip(new.values(), old.values(), strict=True)
            )
            and all(map(_is, map(_grad, self.params), self.tensors[count : 2 * count]))
            and all(type(v) in NUMBERS or isinstance(v, Tensor) for v in update.held)
        )


def _is_number(value: Any) -> bool:
    return type(value) in NUMBERS or (type(value) is tuple and all(map(_is_number, value)))


def _is_plain(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor._view is None and tensor._storage.foreign is None


def _number_again(node: Node) -> Again:
    """How to make a number of the update anew: a rate is read, another one is as it was."""
    origin, dtype = node.buffer, node.dtype
    if origin is None:
        value = node.attrs[0]
        return lambda values: scalar_node(value, dtype)
    if not isinstance(origin, Tracked):
        raise NotPlain
    read = origin.read
    return lambda values: scalar_node(read(), dtype, origin)
