"""The recording of one example: nothing is computed, and looking at a value is an error."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

from rushlight.engine import capture
from rushlight.engine.capture import Session, open_session
from rushlight.engine.live import live_refs, next_order
from rushlight.func.batch_graph import Batch
from rushlight.func.batch_rules import NoRule
from rushlight.ir.device import device_of, put_on
from rushlight.ir.node import Node, buffer_node, next_serial, topological
from rushlight.tensors import interop
from rushlight.tensors.functions_reduce import allclose, equal
from rushlight.tensors.methods import text
from rushlight.tensors.namespace import is_nonzero
from rushlight.tensors.results import CLASSES
from rushlight.tensors.size import row_major

LOOK = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on any Tensor, please try to rewrite what you're doing with other operations. If "
    "error is occurring somewhere inside PyTorch internals, please file a bug report. ({})"
)
RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)


_PACKAGE, _HERE = f"{Path(__file__).parents[1]}/", f"{Path(__file__).parent}/"
# By these a function takes a value out of its tensors, so it cannot be the same for all examples.
_LOOKS = (
    *(getattr(interop, name) for name in """item tolist numpy array dlpack contains to_bool to_int
    to_float to_complex to_index to_format""".split()),
    is_nonzero, equal, allclose, text, next(iter(CLASSES.values())).__repr__,
)  # fmt: skip
LOOKS = frozenset(function.__code__ for function in _LOOKS)
# Around functions, not functions; as are those of overrides.
_FRAMES, _AROUND = frozenset(("wrapped",)), f"{_PACKAGE}overrides"


def _entered() -> CodeType | None:
    """The code of the package's function that the example called."""
    frame, code = sys._getframe(2), None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or file.startswith(_HERE):
            break
        if frame.f_code.co_name not in _FRAMES and not file.startswith(_AROUND):
            code = frame.f_code
        frame = frame.f_back  # type: ignore[assignment]
    return code


class _Escaped:
    """The memory of what was kept of an example after its recording: there is none."""

    foreign = False
    text = (
        "this tensor belongs to one example of a vmapped function and has no value after the call"
    )

    def view(self, *_: Any) -> NoReturn:
        raise RuntimeError(self.text)

    @property
    def address(self) -> NoReturn:
        raise RuntimeError(self.text)


ESCAPED = _Escaped()


class _Foreign(dict):
    """Memory shared with other libraries is read as it is now."""

    def get(self, storage: Any, default: Any = None) -> Any:
        if storage not in self:
            shape = storage.node.shape
            self[storage] = storage.foreign_view(shape, row_major(shape), 0)
        return self[storage]


class Example(Session):
    """A session in which one example of a vmapped function is recorded. `start`: the serial of
    the first node in it."""

    def __init__(self, randomness: str) -> None:
        self.outer = open_session()
        self.randomness = randomness
        self.foreign = _Foreign()
        self.token = object()
        self.refusal, self.private = "", set()
        self.tracked, self.predicates = [], []
        self.start, self.first = next_serial(), next_order()
        self.leaves: list[Node] = []
        self.batch: Batch | None = None  # set when the leaves are made

    def of_all_examples(self, node: Node) -> tuple[Node, Session | None] | None:
        if self.batch is None:
            return None
        return self.batch.values([node])[0].node, self.outer

    def _look_around(self) -> None:
        """Nothing is replayed, so nothing is noted."""

    def note_grad(self, tensor: Any, grad: Any) -> None:
        if self.outer is not None:
            self.outer.note_grad(tensor, grad)

    def note_index(self, *check: Any) -> bool:
        return False

    def start_of(self, storage: Any, steps: tuple) -> None:
        return None

    def note_draw(self, generator: Any, seed: int, offset: int) -> None:
        if self.randomness == "error":
            raise RuntimeError(RANDOM)
        if self.outer is not None:
            self.outer.note_draw(generator, seed, offset)

    def __enter__(self) -> Example:
        capture.put_session(self)
        return self

    def __exit__(self, *_: object) -> None:
        capture.put_session(self.outer)
        self._let_go()

    def leaf(self, node: Node) -> Node:
        """A leaf without memory: one example of an argument, where that is."""
        self.leaves.append(buffer_node(None, node.shape[1:], node.dtype))
        put_on(self.leaves[-1], device_of(node))
        return self.leaves[-1]

    def _let_go(self) -> None:
        """Whoever still holds a value of the example holds nothing that could be computed."""
        refs = [ref for ref in live_refs() if ref.serial >= self.first]
        of_example = {id(leaf) for leaf in self.leaves}
        for node in topological([ref.node for ref in refs]):
            if any(id(source) in of_example for source in node.src):
                of_example.add(id(node))
        for ref in refs:
            if id(ref.node) in of_example:
                ref.hold(buffer_node(ESCAPED, ref.node.shape, ref.node.dtype))

    def refuse(self, reason: str) -> NoReturn:
        """A look of the function itself is an error; ops that look run for each example."""
        code = _entered()
        if code not in LOOKS:
            raise NoRule("" if code is None else code.co_name)
        raise RuntimeError(LOOK.format(reason))
