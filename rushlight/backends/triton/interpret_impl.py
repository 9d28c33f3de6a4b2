"""Kernels in Triton's interpreter: numpy on the host, one program after another.

In: a module of generated kernels. Out: functions that a session launches. Always true: memory is
read and written where it is; kernels get addresses, so no tensor library is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight.backends.cfamily.module_impl import load_module
from rushlight.backends.cfamily.run import GroupPlan, Launch
from rushlight.backends.triton.language import Triton
from rushlight.base.dtypes import int64
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Plan


class Interpreted:
    """A kernel and the functions it calls, rewritten as the interpreter wants them."""

    def __init__(self, function: Any, names: Sequence[str], types: Sequence[Any]) -> None:
        self.function, self.names, self.types = function, names, types


def interpreted(text: str, kernels: Sequence[tuple[str, Sequence[Any]]]) -> list[Interpreted]:
    """The kernels of a module. kernels: (name, dtypes of its buffers)."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    module = load_module(text)
    found = {k: f for k, f in vars(module).items() if isinstance(f, JITFunction)}
    for name, function in found.items():
        rewritten = InterpretedFunction(function.fn).rewrite()
        setattr(module, name, rewritten)
    made = []
    for name, dtypes in kernels:
        function = vars(module)[name]
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        made.append(Interpreted(function, names, [_pointer(d) for d in dtypes]))
    return made


def _pointer(dtype: Any) -> Any:
    import triton.language as tl

    return tl.pointer_type(getattr(tl, Triton().memory_type(dtype).removeprefix("tl.")))


@contextmanager
def _patched(function: Any) -> Iterator[None]:
    """Triton's language means numpy in here."""
    from triton.runtime import interpreter

    def splat(kind: Any, value: Any) -> Any:
        """The interpreter gives a comparison the dtype of its operands, and then spreads that."""
        return interpreter.TensorHandle(np.full(kind.shape, value.data), value.dtype.scalar)

    scope = interpreter._patch_lang(function)
    scope.set_attr(interpreter.interpreter_builder, "create_splat", splat)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        scope.restore()


class InterpreterSession:
    """One run. Launches are done when `launch` returns."""

    def __init__(
        self, pointers: Sequence[int], nbytes: Sequence[int], words: np.ndarray, plan: Plan
    ) -> None:
        self.pointers, self.words = pointers, words
        self._status = np.zeros(1, np.int64)

    def launch(self, launch: Launch) -> None:
        words = self.words[launch.words]
        addresses = [int(self.pointers[number]) for number in launch.buffers]
        addresses += [words.ctypes.data, self._status.ctypes.data]
        self.run(launch.kernel.name, launch.function, launch.groups, addresses)

    def run(self, name: str, kernel: Interpreted, groups: int, addresses: Sequence[int]) -> None:
        """All programs of a kernel, one after another."""
        from triton.runtime.interpreter import interpreter_builder

        long = _pointer(int64)
        types = [*kernel.types, long, long]
        values = [_address(a, t) for a, t in zip(addresses, types, strict=True)]
        with _patched(kernel.function):
            interpreter_builder.set_grid_dim(groups, 1, 1)
            for group in range(groups):
                interpreter_builder.set_grid_idx(group, 0, 0)
                try:
                    kernel.function(*values)
                except Exception as error:
                    raise BackendError(f"backend triton: {name}: {error!r}") from error

    def status(self) -> int:
        return int(self._status[0])

    def to_host(self, numbers: Iterable[int]) -> None:
        """Host memory is all there is."""

    def to_device(self, numbers: Iterable[int]) -> None:
        """As above."""


def _address(address: int, pointer: Any) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    return tl.tensor(TensorHandle(np.array([address], np.uint64), pointer), pointer)


def load_interpreted(plan: Plan) -> GroupPlan:
    return GroupPlan(plan, InterpreterSession)
