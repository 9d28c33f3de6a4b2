"""The gradient of one call as a list of instructions, made once for equal calls.

In: a gradient function and the gradient of its output. Out: nodes of the gradients of its inputs.
Where the rule looks at a number's value, it runs every time. Always true: the nodes are those that
the rule makes (as in tape.py, which does the same for a whole pass when it is of a plain kind).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.graph import fit, operand_grads, placeholder
from rushlight.ir.node import Node, scalar_node, with_dtype
from rushlight.ir.recipe import Again, NotPlain, Recipe

MOST_KEPT = 16  # ways in which one form is differentiated


class Unknown:
    """The value of a number in a recipe: a rule that looks at it cannot be kept."""

    def _look(self, *_: Any) -> Any:
        raise NotPlain

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __int__ = _look  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __index__ = _look
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = __abs__ = __round__ = _look
    __hash__ = None  # type: ignore[assignment]


def stand_in(node: Node) -> Node:
    """A leaf for a value in a recipe. A constant stands for itself."""
    if node.leaf == "const":
        return node
    if node.leaf == "scalar":
        return scalar_node(Unknown(), node.dtype, object())  # type: ignore[arg-type]
    return placeholder(node.shape, node.dtype)


def again_of(slots: list[Node]) -> Callable[[Node], Again]:
    """How a recipe over these slots gets numbers that are no slots."""
    markers = {id(node.buffer): i for i, node in enumerate(slots) if node.leaf == "scalar"}

    def again(node: Node) -> Again:
        """A number that was saved, in a dtype that a rule gave it."""
        if id(node.buffer) not in markers:
            raise NotPlain  # a number that a rule made
        slot, dtype = markers[id(node.buffer)], node.dtype
        return lambda values: with_dtype(values[slot], dtype)

    return again


def run_kept(
    kept: dict[tuple, Any], head: tuple, nodes: Sequence[Node],
    rule: Callable[[Sequence[Node]], list[Node | None]],
) -> list[Node | None]:  # fmt: skip
    """`rule(nodes)`, or what it made for nodes of the same kinds. `head`: what else it looks at."""
    key = [*head]
    values: list[Node] = []
    for node in nodes:
        if node.leaf == "const":
            key.append(node)
            continue
        key.append(node.dtype if node.leaf == "scalar" else None)
        values.append(node)
    known = tuple(key)
    try:
        found = kept[known]
    except KeyError:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        found = kept[known] = _make(nodes, rule)
    if found is None:
        return rule(nodes)
    recipe, places = found
    made = recipe.made(values)
    return [None if place is None else made[place] for place in places]


def _make(
    nodes: Sequence[Node], rule: Callable[[Sequence[Node]], list[Node | None]]
) -> tuple[Recipe, list[int | None]] | None:
    """Run the rule once, on leaves that stand for the values."""
    stands = list(map(stand_in, nodes))
    slots = [node for node in stands if node.leaf != "const"]
    try:
        grads = rule(stands)
        made = [node for node in grads if node is not None]
        recipe = Recipe(slots, made, again_of(slots))
    except NotPlain:
        return None
    numbers = iter(range(len(made)))
    return recipe, [None if node is None else next(numbers) for node in grads]


def grads_of(fn: Any, g: Node) -> list[Node | None]:
    """Gradients of the inputs of a RecordFn, fitted to its targets."""
    at, nodes = list(fn.saved), [one.node() for one in fn.saved.values()]
    if fn.saved_out is not None:
        at.append(-1)
        nodes.append(fn.saved_out.node())
    at.append(-2)
    nodes.append(g)
    head = (g.shape, g.dtype, *[edge is not None for edge in fn.edges], *at)
    return run_kept(
        fn.form.recipes, head, nodes, lambda values: _rule(fn, dict(zip(at, values, strict=True)))
    )


def _rule(fn: Any, values: dict[int, Node]) -> list[Node | None]:
    """Run the rule on saved values by position, -1 the output, -2 the gradient."""
    form = fn.form
    sources = [values[i] if i in values else placeholder(*like)
               for i, like in enumerate(form.source_likes)]  # fmt: skip
    out = values[-1] if -1 in values else placeholder(*form.likes[0])
    needs = [edge is not None for edge in fn.edges]
    needs += [False] * (len(sources) - len(needs))
    nodes = operand_grads(form.record, form.attrs, sources, out, values[-2], needs)
    return [None if node is None else fit(node, *target)
            for node, target in zip(nodes, form.targets, strict=False)]  # fmt: skip
