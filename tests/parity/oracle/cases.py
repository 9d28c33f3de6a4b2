"""A case: calls by public names with arrays as arguments, told without any module's objects.

In: argument trees of a module. Out: plain trees that `Decoder` builds again in another module.

    ("plain", 1.5)  ("tensor", 3)  ("result", 0, [1])  ("list", [...])  ("dict", {...})
    ("name", "float32")  ("device", "cpu")  ("slice", [...])  ("array", ndarray)
    ("made", "nn.PairwiseDistance", {...})

A tensor is a number: its array, strides, dtype and requires_grad stand in the case's table, so two
uses of one tensor stay one tensor. A result is the value of an earlier call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, type(None), type(Ellipsis))
NAMED = ("dtype", "layout", "memory_format")
# Classes whose objects are told by their arguments: argument -> attribute.
MADE: dict[str, dict[str, str]] = {
    "PairwiseDistance": {"p": "norm", "eps": "eps", "keepdim": "keepdim"},
    "LinearCrossEntropyOptions": {
        name: name for name in ("allow_retain_graph", "batch_chunk_size", "chunking_method",
                                "acc_policy", "acc_dtype")
    },
}  # fmt: skip
NARROW = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32",
          "complex32": "complex64"}  # fmt: skip
LIMIT = 1 << 18
NUMPY_DIMS = 64


class Unsuited(Exception):
    """A sample that cannot be told in arrays and plain values."""


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def array_of(tensor: Any) -> np.ndarray:
    """The values; dtypes that numpy lacks come as wider ones."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    name = dtype_name(tensor)
    if name in NARROW:
        tensor = tensor.cfloat() if NARROW[name] == "complex64" else tensor.float()
    return np.array(tensor.numpy(force=True))  # PyTorch's tensors of zeros without memory


def find(module: ModuleType, name: str) -> Any:
    """The object `a.b.c` of a module, or None."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


class Encoder:
    """Trees of one case, in the module whose values it reads."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.tensors: list[dict] = []
        self.known: dict[int, tuple] = {}
        self.alive: list[Any] = []  # ids stay those of these objects

    def __call__(self, value: Any) -> tuple:
        if isinstance(value, self.module.Tensor):
            return self.known.get(id(value)) or self.new_tensor(value)
        kind = type(value).__name__
        if type(value) in PLAIN:
            return ("plain", value)
        if kind in NAMED:
            return ("name", str(value).rpartition(".")[2])
        if kind == "device":
            return ("device", str(value))
        if isinstance(value, slice):
            return ("slice", [self(v) for v in (value.start, value.stop, value.step)])
        if isinstance(value, tuple | list):
            return ("list" if isinstance(value, list) else "tuple", [self(v) for v in value])
        if isinstance(value, dict):
            return ("dict", {key: self(v) for key, v in value.items()})
        if isinstance(value, np.ndarray | np.generic):
            return ("array", value)
        if kind in MADE:
            given = {name: self(getattr(value, a)) for name, a in MADE[kind].items()}
            return ("made", f"nn.{kind}", given)
        raise Unsuited(kind)

    def new_tensor(self, tensor: Any) -> tuple:
        name = dtype_name(tensor)
        plain = str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu"
        if not plain or tensor.numel() > LIMIT:
            raise Unsuited("layout, device or size")
        flat = tensor.detach().resolve_conj().resolve_neg()
        strides = tuple(flat.stride())
        if tensor.numel():
            span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True))
            if span > LIMIT:
                raise Unsuited("size")
            flat = flat.as_strided((span,), (1,))
        entry = {"values": array_of(flat).reshape(-1), "shape": tuple(tensor.shape),
                 "strides": strides, "dtype": name, "grad": tensor.requires_grad}  # fmt: skip
        self.tensors.append(entry)
        return self.remember(tensor, ("tensor", len(self.tensors) - 1))

    def remember(self, tensor: Any, tree: tuple) -> tuple:
        self.alive.append(tensor)
        return self.known.setdefault(id(tensor), tree)

    def results(self, call: int, value: Any, path: tuple[int, ...] = ()) -> None:
        """The tensors that a call gave, to be named by later calls."""
        if isinstance(value, self.module.Tensor):
            self.remember(value, ("result", call, path))
        elif isinstance(value, tuple | list):
            for i, item in enumerate(value):
                self.results(call, item, (*path, i))


class Decoder:
    """The values of one run. Every run has tensors of its own."""

    def __init__(
        self, module: ModuleType, tensors: list[dict], grad: bool, dtype: tuple[str, str] = ("", "")
    ) -> None:
        self.module, self.tensors, self.grad, self.dtype = module, tensors, grad, dtype
        self.made: dict[int, Any] = {}
        self.results: list[Any] = []

    def __call__(self, tree: tuple) -> Any:
        kind, body = tree[0], tree[1]
        if kind == "tensor":
            if body not in self.made:
                self.made[body] = self.tensor(self.tensors[body])
            return self.made[body]
        if kind == "result":
            value = self.results[body]
            for step in tree[2]:
                value = value[step]
            return value
        if kind in ("list", "tuple", "slice"):
            items = [self(item) for item in body]
            return items if kind == "list" else slice(*items) if kind == "slice" else tuple(items)
        if kind == "dict":
            return {key: self(item) for key, item in body.items()}
        if kind == "made":
            return find(self.module, body)(**{key: self(item) for key, item in tree[2].items()})
        if kind == "name":
            return find(self.module, body)
        return self.module.device(body) if kind == "device" else body

    def tensor(self, entry: dict) -> Any:
        values, name = np.array(entry["values"]), entry["dtype"]
        if name == self.dtype[0]:
            name = self.dtype[1]
            values = values.astype(NARROW.get(name, name))
        if len(entry["shape"]) > NUMPY_DIMS:
            made = from_array(self.module, values, name)
            return made.clone().as_strided(entry["shape"], entry["strides"])
        made = from_array(self.module, array_in(entry | {"values": values}), name)
        return made.requires_grad_() if self.grad and entry["grad"] else made


def array_in(entry: dict) -> np.ndarray:
    """The values of a tensor of a case, in its shape and strides."""
    values, shape = entry["values"], entry["shape"]
    if not values.size:
        return values.reshape(shape)
    steps = [s * values.itemsize for s in entry["strides"]]
    return np.lib.stride_tricks.as_strided(values, shape, steps)


def from_array(module: ModuleType, array: np.ndarray, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = module.from_numpy(array)
    return made if dtype_name(made) == name else made.to(getattr(module, name))


def call(module: ModuleType, name: str, args: tuple, kwargs: dict) -> Any:
    """A function by its name; `Tensor.x` is the method or the attribute of the first argument."""
    if name.startswith("Tensor.") and args and isinstance(args[0], module.Tensor):
        found = getattr(args[0], name.removeprefix("Tensor.").removesuffix(".__get__"))
        return found if name.endswith(".__get__") else found(*args[1:], **kwargs)
    found = find(module, name)
    if found is None:
        raise AttributeError(f"{name} is missing")
    return found(*args, **kwargs)


def play(case: dict, module: ModuleType, decoder: Decoder) -> list[Any]:
    """Run the calls; the leaves of the case's result."""
    for name, args, kwargs in case["calls"]:
        decoder.results.append(call(module, name, decoder(args), decoder(kwargs)))
    out = decoder.results[-1] if case.get("out") is None else decoder(case["out"])
    return list(leaves(out))


def leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list) and not hasattr(value, "numel"):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def told(values: list[Any], module: ModuleType) -> list[tuple]:
    """(dtype name, array) of tensors, ("plain", value) of the rest."""
    return [
        (dtype_name(v), array_of(v)) if isinstance(v, module.Tensor) else ("plain", _plain(v))
        for v in values
    ]


def _plain(value: Any) -> Any:
    return value if type(value) in PLAIN else str(value).rpartition(".")[2]


def gradients(
    case: dict, module: ModuleType, decoder: Decoder
) -> tuple[list[int], dict[int, tuple | None]]:
    """Which outputs have a gradient, and that of every tensor that asks for one."""
    outs = play(case, module, decoder)
    chosen = case.get("outs_with_grad")
    if chosen is None:
        floats = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        chosen = [i for i, v in enumerate(outs) if isinstance(v, module.Tensor)
                  and v.requires_grad and dtype_name(v) in floats]  # fmt: skip
    ask = [i for i, t in enumerate(case["tensors"]) if t["grad"] and i in decoder.made]
    if not chosen or not ask:
        return [], {}
    names = {i: dtype_name(outs[i]) for i in chosen}
    seeds = [from_array(module, seed_of(outs[i].shape, i, name), name) for i, name in names.items()]
    found = module.autograd.grad([outs[i] for i in chosen], [decoder.made[i] for i in ask], seeds,
                                 allow_unused=True)  # fmt: skip
    return chosen, {
        i: None if g is None else (dtype_name(g), array_of(g))
        for i, g in zip(ask, found, strict=True)
    }


def seed_of(shape: Any, i: int, dtype: str) -> np.ndarray:
    rng, shape = np.random.RandomState(99 + i), tuple(shape)
    seed = np.asarray(rng.uniform(-1, 1, shape), np.float32)
    if "complex" in dtype:
        seed = np.asarray(seed + 1j * np.asarray(rng.uniform(-1, 1, shape), np.float32))
    return seed


def shares_memory(module: ModuleType, decoder: Decoder, outs: list[Any]) -> bool | None:
    """Is a write to the first input seen in an output? None where the question has no answer."""
    tensors = [v for v in outs if isinstance(v, module.Tensor)]
    first = decoder.made.get(0)
    if not tensors or first is None or any(v is first for v in tensors) or not first.numel():
        return None
    if dtype_name(first) not in ("float32", "float64", "int64", "complex64", "complex128"):
        return None
    before = [array_of(v) for v in tensors]
    try:
        first.fill_(77)
    except RuntimeError:  # elements that share memory with one another
        return None
    return any(
        not np.array_equal(a, array_of(v), equal_nan=a.dtype.kind in "fc")
        for a, v in zip(before, tensors, strict=True)
    )
