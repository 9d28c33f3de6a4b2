"""torch.jit: scripts are Python here. `script` and `trace` give back what they are given.

A function runs as Python and is compiled when it runs, so there is nothing to translate. As in
PyTorch 2.13, TorchScript is deprecated: each call that asks for it warns.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

import rushlight as torch
from rushlight import names as _names
from rushlight.jit import saved
from rushlight.jit.saved import ScriptModule

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "annotate", "Attribute", "CompilationUnit", "enable_onednn_fusion", "Error", "export",
    "Final", "fork", "freeze", "fuser", "_get_trace_graph", "ignore", "interface",
    "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled",
    "optimize_for_inference", "optimized_execution", "_overload", "_overload_method",
    "RecursiveScriptModule", "save", "script", "_script_if_tracing", "script_if_tracing",
    "script_method", "ScriptFunction", "ScriptModule", "set_fusion_strategy", "strict_fusion",
    "trace", "trace_module", "TracerWarning", "unused", "wait",
]  # fmt: skip
T = TypeVar("T")


def _warn(name: str) -> None:
    warnings.warn(
        f"`torch.jit.{name}` is deprecated. Please switch to `torch.compile` or `torch.export`.",
        DeprecationWarning,
        stacklevel=3,
    )


def is_scripting() -> bool:
    """False: everything runs as Python."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def script(obj: T, *_: Any, **__: Any) -> T:
    """The same function, class or module. Warns: deprecated.

    >>> import rushlight as torch
    >>> torch.jit.script(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    _warn("script")
    return obj


def trace(
    func: Any, example_inputs: Any = None, *_: Any, example_kwarg_inputs: Any = None, **__: Any
) -> Any:
    """The same function or module, also for inputs unlike the examples. Warns: deprecated.

    A module keeps its class and tensors and gets `save(file)`, which writes what it does for inputs
    like the examples.
    """
    _warn("trace")
    return saved.with_example(func, example_inputs, example_kwarg_inputs)


def trace_module(mod: Any, inputs: Any = None, *_: Any, **__: Any) -> Any:
    """`trace` with the inputs of `forward` in a dict. Warns: deprecated."""
    _warn("trace_module")
    given = inputs.get("forward") if builtins.isinstance(inputs, dict) else inputs
    return saved.with_example(mod, given, None)


def freeze(mod: T, *_: Any, **__: Any) -> T:
    """The same module; only one in eval mode, as in PyTorch. Warns: deprecated."""
    _warn("freeze")
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: T, *_: Any, **__: Any) -> T:
    """The same module. Warns: deprecated."""
    _warn("optimize_for_inference")
    return mod


def _unchanged(fn: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return fn if callable(fn) else lambda function: function


ignore = unused = export = interface = script_method = script_if_tracing = _unchanged
_script_if_tracing = _overload = _overload_method = _unchanged


def annotate(the_type: Any, the_value: T) -> T:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001  (PyTorch's name)
    """Python's isinstance; of a generic type, only its outer class is asked."""
    return builtins.isinstance(obj, getattr(target_type, "__origin__", None) or target_type)


class Attribute:
    """A value with a type, for a module's attribute."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class TracerWarning(Warning):
    """A warning of the tracer; never given here, but programs filter it."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """There are none to ignore."""


class Error(RuntimeError):
    """An error of TorchScript; never raised here, but programs catch it."""


RecursiveScriptModule = ScriptModule


class ScriptFunction:
    """The class of scripted functions; there are none, since `script` gives the function."""


class CompilationUnit:
    """Source code to be scripted: not supported."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _no_torchscript("CompilationUnit")


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> torch.futures.Future[T]:
    """The call, done at once, as a future."""
    future: torch.futures.Future[T] = torch.futures.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """The result of `fork`."""
    return future.wait()


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Accepted: there is one way of execution."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Accepted: there is one compiler."""
    yield


class strict_fusion:  # noqa: N801
    """Accepted: a context that asks for fusion."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accepted; gives the strategy before, which is none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted: there is one compiler."""


def onednn_fusion_enabled() -> bool:
    return False


def _no_torchscript(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.jit.{name} is not supported: there is no TorchScript. Use torch.compile to run "
        "faster and torch.save of a state_dict to store a model."
    )


def _get_trace_graph(*_: Any, **__: Any) -> NoReturn:
    """Not supported: there is no TorchScript; torch.fx.symbolic_trace gives a graph."""
    _no_torchscript("_get_trace_graph")


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write what a traced module or function does; `load` gives it back. Warns: deprecated.

    The file is one of `torch.export.save`, not TorchScript. Raises NotSupportedError for what
    `trace` has not seen: `script` has no inputs from which a graph could be made.

    >>> import io, warnings
    >>> x, file = torch.tensor([1.0, -2.0]), io.BytesIO()
    >>> with warnings.catch_warnings(action="ignore"):
    ...     save(trace(torch.nn.ReLU(), (x,)), file)
    ...     _ = file.seek(0)
    ...     found = load(file)
    >>> found(x).tolist()
    [1.0, 0.0]
    """
    _warn("save")
    saved.save(m, f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> Any:
    """The module that `save` wrote, for inputs like the examples. Warns: deprecated.

    Raises NotSupportedError for a file of TorchScript.
    """
    _warn("load")
    return saved.load(f, map_location, _extra_files)
