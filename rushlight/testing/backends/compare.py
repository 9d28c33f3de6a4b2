"""Run a model on backends, forward and backward, and judge each.

In: a function that makes (model, inputs), and names of backends. Out: a `Comparison`. Always true:
every backend gets the same weights and inputs, bit by bit (made once, on the first one), and speed
is measured in turns, so that a busy moment of the machine hits all of them.

A result is right when its error against a float64 run is at most SLACK times that of the first
backend, or of one rounding of the largest value. What a backend refuses or fails to do is its
verdict, not an exception.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.base.config import config
from rushlight.base.errors import RushlightError
from rushlight.runtime import buffer
from rushlight.testing.backends.differences import Difference, difference, wide

SLACK = 4.0
REPEATS = 3  # runs whose bits are compared
TIMED = 7  # runs whose times count, for each backend

Make = Callable[[], tuple[Any, tuple[Any, ...]]]


@dataclass
class BackendResult:
    """What was found out about one backend.

    error      why there is nothing else, or ""
    values     outputs and gradients by name
    layers     outputs of modules by name, in the order in which they ran
    right      correctness: the values that are too far off; none: right
    against    the value furthest from the first backend's, and how far
    first_at   the first module whose output has other bits than on the first backend, or ""
    digests    one per repeat, of the bits of all values
    first_s    seconds of the first call (compilation included); times_s: of later ones
    peak_bytes most memory that tensors took in a run
    """

    name: str
    error: str = ""
    values: dict[str, np.ndarray] = field(default_factory=dict)
    layers: dict[str, np.ndarray] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    against: tuple[str, Difference] | None = None
    first_at: str = ""
    digests: list[str] = field(default_factory=list)
    first_s: float = 0.0
    times_s: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def is_right(self) -> bool:
        return not self.error and not self.wrong

    @property
    def is_deterministic(self) -> bool:
        return len(set(self.digests)) == 1


@dataclass
class Comparison:
    """Results in the order of the backends; the first is what the others are compared with."""

    results: list[BackendResult]

    @property
    def is_right(self) -> bool:
        return all(result.is_right for result in self.results)

    def ratio(self, result: BackendResult) -> float | None:
        """Steady time relative to the first backend."""
        base = self.results[0].times_s
        if not base or not result.times_s:
            return None
        return float(np.median(result.times_s) / np.median(base))


def compare(make: Make, backends: Sequence[str]) -> Comparison:
    """Run the model of `make` on each backend.

    Example:
        >>> def make():
        ...     return torch.nn.Linear(3, 2), (torch.ones(4, 3),)
        >>> compare(make, ["llvm", "interp"]).is_right
        True
    """
    with config.override(backend=backends[0]):
        torch.manual_seed(0)
        model, inputs = make()
        held = _Held(model, inputs)
    results = [BackendResult(name) for name in backends]
    for result in results:
        _guarded(result, held, _run_all)
    for _ in range(TIMED):
        for result in results:
            if not result.error:
                _guarded(result, held, _run_timed)
    try:
        exact = _exact_values(held, backends[0])
    except (RushlightError, TypeError, RuntimeError):
        exact = {}  # a model that does not take float64: the first backend is the measure
    for result in results:
        _judge(result, results[0], exact)
    return Comparison(results)


class _Held:
    """The model with its inputs and the weights it had at the start."""

    def __init__(self, model: Any, inputs: tuple[Any, ...]) -> None:
        self.model = model
        self.inputs = [_to_numpy(x) for x in inputs]
        state = model.state_dict() if hasattr(model, "state_dict") else {}
        self.weights = {name: _to_numpy(value).copy() for name, value in state.items()}

    def fresh(self, dtype: Any = None) -> list[Any]:
        """The weights as they were, and new input tensors."""
        torch.manual_seed(0)
        if self.weights:
            state = {name: _tensor(value, dtype) for name, value in self.weights.items()}
            self.model.load_state_dict(state)
            self.model.zero_grad(set_to_none=True)
        return [_tensor(value, dtype) for value in self.inputs]


def _to_numpy(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def _tensor(value: Any, dtype: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value.copy())
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _guarded(
    result: BackendResult, held: _Held, run: Callable[[BackendResult, _Held], None]
) -> None:
    try:
        with config.override(backend=result.name):
            run(result, held)
    except (RushlightError, RuntimeError, ValueError) as error:
        result.error = f"{type(error).__name__}: {error}"


def _run_all(result: BackendResult, held: _Held) -> None:
    began = time.perf_counter()
    _run(held)
    result.first_s = time.perf_counter() - began
    for turn in range(REPEATS):
        buffer.reset_peak()
        before = buffer.memory_allocated()
        values = _run(held)
        result.peak_bytes = max(result.peak_bytes, buffer.max_memory_allocated() - before)
        result.digests.append(_digest(values))
        result.values = values
        # Memory in other places must not change anything.
        _ = torch.zeros(1000 * (turn + 1)).numpy()
    result.layers = _layers(held)


def _run_timed(result: BackendResult, held: _Held) -> None:
    inputs = held.fresh()
    began = time.perf_counter()
    _step(held.model, inputs)
    result.times_s.append(time.perf_counter() - began)


def _run(held: _Held, dtype: Any = None) -> dict[str, np.ndarray]:
    return _step(held.model, held.fresh(dtype))


def _step(model: Any, inputs: list[Any]) -> dict[str, np.ndarray]:
    """Outputs, and the gradients of the sum of their squares (with weights that differ)."""
    output = model(*inputs)
    values = {f"output{path}": value for path, value in _flat(output)}
    floats = [v for v in values.values() if v.is_floating_point() and v.requires_grad]
    if floats:
        loss = sum((value * value).mean() for value in floats)
        loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                values[f"grad of {name}"] = parameter.grad
    return {name: value.detach().numpy().copy() for name, value in values.items()}


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The tensors of an output, which may be lists, tuples and dicts of them."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    else:
        return []
    return [leaf for key, item in items for leaf in _flat(item, f"{path}[{key!r}]")]


def _layers(held: _Held) -> dict[str, np.ndarray]:
    """The output of every module, by a forward hook on each."""
    found: dict[str, np.ndarray] = {}
    if not hasattr(held.model, "named_modules"):
        return found
    inputs = held.fresh()

    def hook(name: str) -> Callable[..., None]:
        def keep(module: Any, args: Any, output: Any) -> None:
            for path, value in _flat(output):
                found[f"{name or 'model'}{path}"] = value.detach().numpy().copy()

        return keep

    handles = [m.register_forward_hook(hook(n)) for n, m in held.model.named_modules()]
    try:
        with torch.no_grad():
            held.model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _exact_values(held: _Held, backend: str) -> dict[str, np.ndarray]:
    """The values in float64: what all errors are measured against."""
    with config.override(backend=backend):
        held.model.double()
        try:
            return _run(held, torch.float64)
        finally:
            held.model.float()


def _digest(values: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, value in values.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


# verdicts ----------------------------------------------------------------------------------------


def _judge(result: BackendResult, base: BackendResult, exact: dict[str, np.ndarray]) -> None:
    if result.error:
        return
    for name, value in result.values.items():
        wanted = base.values.get(name)
        if wanted is None:
            continue
        far = difference(value, wanted)
        if result.against is None or far.relative > result.against[1].relative:
            result.against = (name, far)
        why = _too_far(value, wanted, exact.get(name))
        if why:
            result.wrong[name] = why
    for name, value in result.layers.items():
        there = base.layers.get(name)
        if there is not None and not difference(value, there).same_bits:
            result.first_at = name
            break


def _too_far(value: np.ndarray, base: np.ndarray, exact: np.ndarray | None) -> str:
    if value.shape != base.shape or value.dtype != base.dtype:
        return f"{value.dtype}{list(value.shape)} in place of {base.dtype}{list(base.shape)}"
    if value.dtype.kind in "iub":
        return "" if np.array_equal(value, base) else "whole numbers differ"
    truth = wide(base) if exact is None else exact
    own, first = difference(wide(value), truth), difference(wide(base), truth)
    scale = float(np.abs(truth[np.isfinite(truth)]).max(initial=0.0))
    rounding = float(_EPSILON.get(str(value.dtype), 2.0**-23)) * scale
    limit = SLACK * max(first.absolute, rounding)
    if own.absolute <= limit:
        return ""
    return f"error {own.absolute:.3g}, at most {limit:.3g} (first at {list(own.first or ())})"


_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
