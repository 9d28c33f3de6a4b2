"""A model as a graph of its layers, found by running it once."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.utils.tensorboard.messages import blob, integer, text


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for part in value.values() for t in _tensors(part)]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in _tensors(part)]
    return []


class _Seen:
    """The layers in the order in which they ran, and which one made a tensor."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.made: list[tuple[torch.Tensor, str]] = []  # keeps them alive, so that none is reused

    def add(self, name: str, op: str, inputs: list[torch.Tensor], outputs: Any) -> None:
        sources = dict.fromkeys(maker for t in inputs for made, maker in self.made if made is t)
        self.nodes.append(blob(1, text(1, name) + text(2, op)
                               + b"".join(text(3, source) for source in sources)))  # fmt: skip
        self.made += [(tensor, name) for tensor in _tensors(outputs)]


def graph_of(model: Any, inputs: Any) -> bytes:
    """A GraphDef: a node for each layer that has no layers inside. An edge that passes through a
    function between two layers is not seen."""
    seen, top = _Seen(), type(model).__name__
    args = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    for i, tensor in enumerate(_tensors(args)):
        seen.add(f"input/{i}", "Input", [], tensor)
    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            full = "/".join([top, *name.split(".")]) if name else top

            def note(layer: Any, given: Any, found: Any, full: str = full) -> None:
                seen.add(full, type(layer).__name__, _tensors(given), found)

            handles.append(module.register_forward_hook(note))
    training = model.training
    try:
        with torch.no_grad():
            found = model.eval()(*args)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    seen.add("output", "Output", _tensors(found), [])
    return b"".join(seen.nodes) + blob(4, integer(1, 22))
