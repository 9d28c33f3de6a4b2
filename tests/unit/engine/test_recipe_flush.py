"""A flush with a recipe: who holds what, what is asked for first, and what an error leaves."""

from __future__ import annotations

import threading

import pytest

import rushlight as torch
from rushlight import ops
from rushlight.base.devices import DEVICES
from rushlight.base.dtypes import float32
from rushlight.engine import recipe_flush
from rushlight.engine.failures import RunFailed
from rushlight.engine.live import WAITING
from rushlight.engine.realize import LOCK, flush
from rushlight.engine.recipe_flush import flush_with
from rushlight.ir.node import buffer_node, scalar_node, with_dtype
from rushlight.ir.recipe import NotPlain, Recipe
from rushlight.tensors.tensor import new_tensor


@pytest.fixture(autouse=True)
def no_other_devices(monkeypatch):
    monkeypatch.setattr(DEVICES, "used", False)


def no_number(node):
    raise NotPlain


def scaled_sum():
    """(a + b) * a, and a + b, over two slots of four numbers."""
    slots = [buffer_node(None, (4,), float32) for _ in range(2)]
    total = ops.add.node(*slots)
    return Recipe(slots, [ops.mul.node(total, slots[0]), total], no_number)


def values(*numbers):
    tensors = [torch.full((4,), number) for number in numbers]
    flush()
    return tensors, [tensor._value() for tensor in tensors]


def numbers(nodes):
    return [new_tensor(node).tolist()[0] for node in nodes]


def test_outputs_and_what_waits_come_from_one_program(fresh_programs):
    recipe = scaled_sum()
    for turn in range(3):
        held, nodes = values(2.0 + turn, 3.0)
        waiting = held[1] * 7
        compiled = fresh_programs.compiled
        outputs = flush_with(recipe, nodes)
        assert [node.leaf for node in outputs] == ["buffer", "buffer"]
        assert numbers(outputs) == [(5 + turn) * (2 + turn), 5 + turn]
        assert waiting._value().leaf == "buffer" and waiting.tolist() == [21] * 4
        assert fresh_programs.compiled == compiled + (turn == 0)


def test_slots_may_wait_too_and_share_what_they_are_made_of(fresh_programs):
    recipe = scaled_sum()
    (base,), _ = values(2.0)
    for _ in range(2):
        doubled = base * 2
        assert numbers(flush_with(recipe, [doubled._value(), base._value()])) == [24, 6]
        assert numbers(flush_with(recipe, [doubled._value()] * 2)) == [32, 8]


def test_numbers_of_slots_are_inputs(fresh_programs):
    marker = object()
    slot = scalar_node(1.0, float32, marker)
    given = buffer_node(None, (4,), float32)
    recipe = Recipe(
        [slot, given],
        [ops.mul.node(given, slot)],
        lambda node: lambda values: with_dtype(values[0], float32),
    )
    _, (node,) = values(3.0)
    assert numbers(flush_with(recipe, [scalar_node(2.0, float32), node])) == [6]
    compiled = fresh_programs.compiled
    assert numbers(flush_with(recipe, [scalar_node(5.0, float32), node])) == [15]
    assert fresh_programs.compiled == compiled


def test_memory_that_is_no_slot_is_refused():
    """A program could be given it, since no tensor holds it."""
    slot = buffer_node(None, (4,), float32)
    _, (other,) = values(1.0)
    with pytest.raises(NotPlain):
        Recipe([slot], [ops.add.node(slot, other)], no_number)
    with pytest.raises(NotPlain):
        Recipe([slot], [ops.mul.node(slot, scalar_node(2.0, float32))], no_number)


def test_a_slot_as_output_makes_the_ordinary_way():
    slot = buffer_node(None, (4,), float32)
    recipe = Recipe([slot], [slot], no_number)
    _, nodes = values(1.0)
    assert flush_with(recipe, nodes) is None
    assert recipe.made(nodes) == nodes


def test_an_input_that_nobody_holds_is_taken_over(fresh_programs):
    recipe = scaled_sum()
    held, (a, b) = values(2.0, 3.0)
    addresses = [node.buffer.address for node in (a, b)]
    outputs = flush_with(recipe, (a, b))
    assert not {node.buffer.address for node in outputs} & set(addresses)
    del held
    outputs = flush_with(recipe, (a, b))
    assert {node.buffer.address for node in outputs} & set(addresses)
    assert numbers(outputs) == [10, 5]


@pytest.mark.parametrize("error", [RunFailed(None, ValueError()), MemoryError(), SystemExit()])
def test_an_error_leaves_everything_waiting(monkeypatch, error):
    recipe = scaled_sum()
    held, nodes = values(2.0, 3.0)
    waiting = held[1] * 7

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(recipe_flush, "launch", fail)
        if isinstance(error, RunFailed):
            assert flush_with(recipe, nodes) is None
        else:
            with pytest.raises(type(error)):
                flush_with(recipe, nodes)
    assert WAITING and waiting._value().leaf == ""
    flush()
    assert waiting._value().leaf == "buffer" and not WAITING
    assert numbers(flush_with(recipe, nodes)) == [10, 5]


def test_it_is_alone_and_a_value_recorded_meanwhile_still_waits(monkeypatch):
    recipe = scaled_sum()
    held, nodes = values(2.0, 3.0)
    run, free, made = recipe_flush.launch, [], []

    def meanwhile(*args):
        def other():
            free.append(LOCK.acquire(blocking=False))
            made.append(held[0] * 9)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return run(*args)

    monkeypatch.setattr(recipe_flush, "launch", meanwhile)
    flush_with(recipe, nodes)
    assert free == [False] and WAITING
    flush()
    assert made[0]._value().leaf == "buffer"


def test_who_listens_hears_of_the_pass():
    w = torch.ones(4, requires_grad=True)
    with torch.explain() as report:
        (w * w).sum().backward()
        assert w.grad.tolist() == [2] * 4
    assert "map_add" in str(report)


def test_a_device_that_a_thread_used_meanwhile_is_seen(monkeypatch):
    """The flush waits for its turn while another thread uses a device for the first time."""
    recipe = scaled_sum()
    held, nodes = values(2.0, 3.0)
    wanted = recipe_flush.wanted

    def wanted_later(extra):
        DEVICES.used = True
        return wanted(extra)

    monkeypatch.setattr(recipe_flush, "wanted", wanted_later)
    waiting = held[0] + 1
    assert flush_with(recipe, nodes) is None and not waiting._value().leaf
