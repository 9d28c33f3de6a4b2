"""Modules and optimizers as cases: made, given a state, used, and looked at again.

A module's case: its name, the trees of its two calls, the state that it loads, its mode. What is
seen: the outputs, the gradients of inputs and parameters, the state afterwards. An optimizer's
case: its name and options. What is seen: the parameters after STEPS steps on fixed gradients (or a
fixed problem, for one that wants a closure), and the keys of its state.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from cases import Decoder, array_of, dtype_name, find, from_array, leaves, told
from compare import GRADIENT, differs

STEPS = 6
FLOATS = ("float32", "float64")


def play_module(case: dict, module: ModuleType, decoder: Decoder) -> tuple[Any, list[Any]]:
    """The module in its case's state, and the leaves of its output."""
    args, kwargs = (decoder(tree) for tree in case["make"])
    made = find(module, case["name"])(*args, **kwargs)
    made.train(case["training"])
    keys = [key for key, _, _ in case["state"]]
    if [*made.state_dict()] != keys:
        raise ValueError(f"state_dict keys {[*made.state_dict()][:6]}, want {keys[:6]}")
    made.load_state_dict(
        {key: from_array(module, np.array(value), dtype) for key, dtype, value in case["state"]}
    )
    args, kwargs = (decoder(tree) for tree in case["call"])
    return made, list(leaves(made(*args, **kwargs)))


def module_gradients(case: dict, module: ModuleType) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Gradients by number of the input tensor and by name of the parameter; the state after."""
    decoder = Decoder(module, case["tensors"], True)
    made, outs = play_module(case, module, decoder)
    wanted: dict[Any, Any] = {
        i: decoder.made[i] for i, t in enumerate(case["tensors"]) if t["grad"] and i in decoder.made
    }
    wanted |= dict(made.named_parameters())
    outs = [v for v in outs if isinstance(v, module.Tensor) and v.requires_grad]
    outs = [v for v in outs if dtype_name(v) in FLOATS]
    grads: dict[Any, Any] = {}
    if outs and wanted:
        rng = [np.random.RandomState(99 + i) for i in range(len(outs))]
        seeds = [
            from_array(module, r.uniform(-1, 1, tuple(v.shape)).astype(np.float32), dtype_name(v))
            for r, v in zip(rng, outs, strict=True)
        ]
        found = module.autograd.grad(outs, [*wanted.values()], seeds, allow_unused=True)
        grads = {
            key: None if g is None else (dtype_name(g), array_of(g))
            for key, g in zip(wanted, found, strict=True)
        }
    after = {key: (dtype_name(v), array_of(v)) for key, v in made.state_dict().items()}
    return grads, after


def play_optimizer(case: dict, module: ModuleType) -> list[tuple]:
    """The parameters after some steps, and the keys of the state."""
    rng = np.random.RandomState(0)
    shapes = [(4, 3), (2, 5)] if case["only_matrices"] else [(4, 3), (7,), ()]

    def fresh(shape: tuple[int, ...]) -> Any:
        return from_array(module, np.asarray(rng.randn(*shape), np.float32), "float32")

    params = [module.nn.Parameter(fresh(shape)) for shape in shapes]
    decoder = Decoder(module, case["tensors"], False)
    made = find(module, case["name"])(params, **decoder(case["options"]))
    targets = [fresh(shape) for shape in shapes]

    def closure() -> Any:
        made.zero_grad()
        loss = sum(((p - t) ** 2).sum() for p, t in zip(params, targets, strict=True))
        loss.backward()
        return loss

    for _ in range(STEPS):
        if case["wants_closure"]:
            made.step(closure)
            continue
        for param, shape in zip(params, shapes, strict=True):
            param.grad = fresh(shape)
        made.step()
    states = made.state_dict()["state"].values()
    keys = sorted({key for state in states for key in state if not key.startswith("_")})
    return [*told(params, module), ("plain", ",".join(keys))]


# Compared with what PyTorch told ------------------------------------------------------------


def wrong_module(case: dict, module: ModuleType) -> str:
    decoder = Decoder(module, case["tensors"], False)
    got = told(play_module(case, module, decoder)[1], module)
    return _first(got, case["want"], case["how"])


def wrong_module_gradient(case: dict, module: ModuleType) -> str:
    grads, after = module_gradients(case, module)
    for got, want, factor in ((grads, case["grads"], GRADIENT), (after, case["after"], 1.0)):
        for key, value in want.items():
            wrong = differs(got.get(key), value, case["how"], 0.0, factor)
            if wrong:
                return f"{key}: {wrong}"
    return ""


def wrong_optimizer(case: dict, module: ModuleType) -> str:
    return _first(play_optimizer(case, module), case["want"], "")


def wrong_module_error(case: dict, module: ModuleType) -> str:
    try:
        decoder = Decoder(module, case["tensors"], False)
        args, kwargs = (decoder(tree) for tree in case["make"])
        made = find(module, case["name"])(*args, **kwargs)
        args, kwargs = (decoder(tree) for tree in case["call"])
        made(*args, **kwargs)
    except Exception as error:
        have = type(error).__name__
        return "" if case["error"] in (have, "Exception") else f"{have}: {str(error)[:200]}"
    return f"no error, want {case['error']}"


def _first(got: list[tuple], want: list[tuple], how: str) -> str:
    if len(got) != len(want):
        return f"{len(got)} results, want {len(want)}"
    pairs = zip(got, want, strict=True)
    return next(filter(None, (differs(a, b, how) for a, b in pairs)), "")
