"""What the engine keeps of graphs it has seen does not grow with the number of different ones."""

import gc

import rushlight as torch
from rushlight.engine import signature
from rushlight.ir import node


def sizes() -> tuple[int, ...]:
    gc.collect()
    return len(signature._PATTERNS), len(signature._INPUTS), len(node._CONSTS)


def test_constants_that_nobody_uses_are_forgotten(monkeypatch):
    monkeypatch.setattr(signature, "MOST_NUMBERS", 8)
    before = sizes()[2]
    for number in range(2000):
        node.const_node(0.123 + number, torch.float32)
    assert sizes()[2] <= before + 1
    kept = node.const_node(0.7071, torch.float32)
    assert node.const_node(0.7071, torch.float32) is kept


def test_patterns_that_nobody_uses_are_forgotten():
    before = sizes()[0]
    for number in range(2000):
        signature._pattern("clamp", (number,), ("n",), "float32")
    assert sizes()[0] <= before + 1
    kept = signature._pattern("clamp", (1,), ("n",), "float32")
    assert signature._pattern("clamp", (1,), ("n",), "float32") is kept


def test_numbers_and_inputs_are_bounded(monkeypatch):
    monkeypatch.setattr(signature, "_INPUTS", {})
    monkeypatch.setattr(signature, "_NUMBERS", {})
    monkeypatch.setattr(signature, "MOST_INPUTS", 20)
    monkeypatch.setattr(signature, "MOST_NUMBERS", 20)
    for number in range(2, 60):
        x = torch.ones(number)
        x.numpy()
        assert (x * 2).sum().item() == 2 * number
        constant = node.const_node(float(number), torch.float32)
        signature._see_number(constant, 1, "float32", str(number))
    assert len(signature._INPUTS) <= 21 and len(signature._NUMBERS) <= 21
