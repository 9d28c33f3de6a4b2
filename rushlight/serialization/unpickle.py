"""Read a pickle without running what is in it: `weights_only=True`.

In: the bytes of a pickle, and what gives storages by key. Out: the object, made of plain values,
tensors, and classes that the user allowed. The opcodes are those PyTorch's reader takes.
Always true: only what ALLOWED and `add_safe_globals` name is ever called; damage is a
CorruptFileError or an UnpicklingError; no nesting in the file reaches the machine's stack.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from rushlight.serialization.errors import CLEAR, CorruptFileError
from rushlight.serialization.rebuild import ALLOWED, check_key, with_state
from rushlight.serialization.safe_globals import marked_names, modern_name

BLOCKED_MODULES = ("sys", "os", "posix", "nt")
DAMAGE = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, EOFError,
    RuntimeError, MemoryError, struct.error,
)  # fmt: skip
DICTS = (dict, OrderedDict, Counter)


class WeightsUnpickler:
    """Reads one pickle from a file with `read` and `readline`."""

    def __init__(self, file: Any, persistent_load: Callable[[Any], Any]) -> None:
        """Start at the file's position."""
        self.file = file
        self.persistent_load = persistent_load
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.marked = marked_names()
        self._passed: BaseException | None = None

    def load(self) -> Any:
        """Return the object; what is not a pickle of one is damage."""
        try:
            while True:
                code = self.take(1)
                if code == pickle.STOP:
                    return self.stack.pop()
                action = ACTIONS.get(code)
                if action is None:
                    raise pickle.UnpicklingError(f"Unsupported operand {code[0]}")
                action(self)
        except (pickle.UnpicklingError, *CLEAR):
            raise
        except DAMAGE as error:
            if error is self._passed:
                raise
            raise CorruptFileError(f"the pickle is damaged: {error!r:.300}") from error

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        data = self.file.read(count)
        if len(data) != count:
            raise CorruptFileError("the pickle is cut")
        return data

    def number(self, layout: str) -> Any:
        """Return the next number."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        """Return what is above the last mark."""
        items = self.stack
        self.stack = self.below.pop()
        return items

    # Names --------------------------------------------------------------------------------

    def find_global(self) -> None:
        """A name: from the allow-list, from the user's list, or refused."""
        module, name = (self.file.readline()[:-1].decode("utf-8") for _ in range(2))
        module, name = modern_name(module, name)
        path = f"{module}.{name}"
        if module in BLOCKED_MODULES:
            raise pickle.UnpicklingError(
                f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked."
            )
        if path in ALLOWED:
            self.push(ALLOWED[path][0])
        elif path in self.marked:
            self.push(self.marked[path])
        else:
            path = path.removeprefix("builtins.")
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {path} was not an allowed global by default. Please "
                f"use `torch.serialization.add_safe_globals([{path}])` or the "
                f"`torch.serialization.safe_globals([{path}])` context manager to allowlist this "
                "global if you trust this class/function."
            )

    def reduce(self) -> None:
        """Call a function that is allowed."""
        args, func = self.stack.pop(), self.stack.pop()
        call = CALLS.get(id(func))
        if call is None and any(func is value for value in self.marked.values()):
            call = func
        if call is None:
            raise pickle.UnpicklingError(
                f"Trying to call reduce for unrecognized function {func!r:.200}"
            )
        self.push(call(*args))

    def new_object(self) -> None:
        """Make an object of a class that is allowed."""
        args, kind = self.stack.pop(), self.stack.pop()
        if any(kind is value for value in self.marked.values()):
            self.push(kind.__new__(kind, *args))
        elif isinstance(kind, type) and id(kind) in CALLS:
            self.push(CALLS[id(kind)](*args))
        else:
            raise pickle.UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via "
                f"`add_safe_globals` but got {kind!r:.200}"
            )

    def build(self) -> None:
        """Give the last object its attributes."""
        state, made = self.stack.pop(), self.stack[-1]
        kind = type(made)
        if kind is OrderedDict and isinstance(state, dict):
            made.__dict__.update(state)
        elif any(kind is value for value in self.marked.values()):
            with_state(made, state)
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {kind}"
            )

    def persistent(self) -> None:
        """Ask for a storage."""
        key = self.stack.pop()
        if type(key) is not tuple and type(key) is not int:
            raise pickle.UnpicklingError(
                f"persistent_load id must be tuple or int, but got {type(key)}"
            )
        if type(key) is tuple and (not key or key[0] != "storage"):
            raise pickle.UnpicklingError(
                f"Only persistent_load of storage is allowed, but got {type(key and key[0])}"
            )
        try:
            self.push(self.persistent_load(key))
        except Exception as error:
            self._passed = error
            raise

    # Containers ---------------------------------------------------------------------------

    def mark(self) -> None:
        """Start a list of items."""
        self.below.append(self.stack)
        self.stack = []

    def append(self, items: list[Any], what: str) -> None:
        """Add items to the list below them."""
        target = self.stack[-1]
        if type(target) is not list:
            raise pickle.UnpicklingError(f"Can only {what} lists, but got {type(target)}")
        target.extend(items)

    def set_items(self, items: list[Any], opcode: str) -> None:
        """Put keys and values into the dict below them."""
        target = self.stack[-1]
        if type(target) not in DICTS:
            raise pickle.UnpicklingError(
                f"Can only {opcode} for dict, collections.OrderedDict, collections.Counter, but "
                f"got {type(target)}"
            )
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[check_key(key)] = value

    def pop_two(self) -> list[Any]:
        """Return a key and its value."""
        value, key = self.stack.pop(), self.stack.pop()
        return [key, value]

    def tuple_of(self, count: int) -> None:
        """Replace the last values by a tuple of them."""
        if len(self.stack) < count:
            raise IndexError("too few values for a tuple")
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        self.push(items)

    # Values -------------------------------------------------------------------------------

    def text(self) -> None:
        """A text."""
        self.push(str(self.take(self.number("<I")), "utf-8", "surrogatepass"))

    def old_text(self) -> None:
        """A text of Python 2."""
        self.push(self.take(self.number("B")).decode("utf-8"))

    def long(self) -> None:
        """An integer of any size up to 255 bytes."""
        self.push(pickle.decode_long(self.take(self.number("B"))))


# A constant callable per name: values are objects that live as long as the table.
CALLS = {id(value): call for value, call in ALLOWED.values() if call is not None}

ACTIONS: dict[bytes, Callable[[WeightsUnpickler], None]] = {
    pickle.PROTO: lambda u: u.take(1) and None,
    pickle.GLOBAL: WeightsUnpickler.find_global,
    pickle.REDUCE: WeightsUnpickler.reduce,
    pickle.NEWOBJ: WeightsUnpickler.new_object,
    pickle.BUILD: WeightsUnpickler.build,
    pickle.BINPERSID: WeightsUnpickler.persistent,
    pickle.MARK: WeightsUnpickler.mark,
    pickle.APPEND: lambda u: u.append([u.stack.pop()], "append to"),
    pickle.APPENDS: lambda u: u.append(u.pop_mark(), "extend"),
    pickle.SETITEM: lambda u: u.set_items(u.pop_two(), "SETITEM"),
    pickle.SETITEMS: lambda u: u.set_items(u.pop_mark(), "SETITEMS"),
    pickle.TUPLE: lambda u: u.push(tuple(u.pop_mark())),
    pickle.TUPLE1: lambda u: u.tuple_of(1),
    pickle.TUPLE2: lambda u: u.tuple_of(2),
    pickle.TUPLE3: lambda u: u.tuple_of(3),
    pickle.NONE: lambda u: u.push(None),
    pickle.NEWFALSE: lambda u: u.push(False),
    pickle.NEWTRUE: lambda u: u.push(True),
    pickle.EMPTY_TUPLE: lambda u: u.push(()),
    pickle.EMPTY_LIST: lambda u: u.push([]),
    pickle.EMPTY_DICT: lambda u: u.push({}),
    pickle.EMPTY_SET: lambda u: u.push(set()),
    pickle.BININT: lambda u: u.push(u.number("<i")),
    pickle.BININT1: lambda u: u.push(u.number("B")),
    pickle.BININT2: lambda u: u.push(u.number("<H")),
    pickle.BINFLOAT: lambda u: u.push(u.number(">d")),
    pickle.BINUNICODE: WeightsUnpickler.text,
    pickle.SHORT_BINSTRING: WeightsUnpickler.old_text,
    pickle.LONG1: WeightsUnpickler.long,
    pickle.BINGET: lambda u: u.push(u.memo[u.number("B")]),
    pickle.LONG_BINGET: lambda u: u.push(u.memo[u.number("<I")]),
    pickle.BINPUT: lambda u: u.memo.update({u.number("B"): u.stack[-1]}),
    pickle.LONG_BINPUT: lambda u: u.memo.update({u.number("<I"): u.stack[-1]}),
}


def explain(message: str) -> str:
    """Return PyTorch's advice around the message of a refused pickle."""
    docs = (
        "\n\nCheck the documentation of torch.load to learn more about types accepted by default "
        "with weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
    )
    if "was not an allowed global by default." in message:
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two "
            "options, \033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {UNSAFE_MESSAGE}\n\t(2) Alternatively, to load with `weights_only=True` "
            "please check the recommended steps in the following error message.\n\t"
            f"WeightsUnpickler error: {message}{docs}"
        )
    text = f"Weights only load failed. {UNSAFE_MESSAGE}\n"
    if "is blocked." not in message:
        text += (
            "Please file an issue with the following so that we can make `weights_only=True` "
            "compatible with your use case: WeightsUnpickler error: "
        )
    return f"{text}\n\n{message}{docs}"


UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely"
    " succeed, but it can result in arbitrary code execution. Do it only if you got the file from "
    "a trusted source."
)
