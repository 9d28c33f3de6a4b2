"""replace_pattern: what matches, what does not, and what the program computes then."""

import pytest

import rushlight as torch
from rushlight.fx import has_side_effect, replace_pattern, symbolic_trace

X, Y = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])


def test_all_places_are_replaced_also_in_a_chain():
    traced = symbolic_trace(lambda a, b: ((a + b) + b).relu() + 1)
    found = replace_pattern(traced, lambda u, v: u + v, lambda u, v: u * v)
    assert len(found) == 3 and len(found[0].nodes_map) == 3  # an argument may be a number
    assert traced(X, Y).equal(((X * Y) * Y).relu() * 1)
    traced.graph.lint()


def test_constants_keywords_and_methods_must_be_equal():
    traced = symbolic_trace(lambda a: a.clamp(min=0) + a.clamp(min=1))
    found = replace_pattern(traced, lambda u: u.clamp(min=0), lambda u: u.neg())
    assert len(found) == 1
    assert traced(X).equal(-X + X.clamp(min=1))


def test_a_value_that_others_read_is_no_match():
    def program(a, b):
        inner = a * b
        return torch.tanh(inner) + inner

    traced = symbolic_trace(program)
    assert not replace_pattern(traced, lambda u, v: torch.tanh(u * v), lambda u, v: u - v)
    assert traced(X, Y).equal(program(X, Y))


def test_the_same_argument_twice():
    traced = symbolic_trace(lambda a, b: a * a + a * b)
    found = replace_pattern(traced, lambda u: u * u, lambda u: u.square())
    assert len(found) == 1 and traced(X, Y).equal(X.square() + X * Y)


def test_numbers_of_arguments_must_agree():
    with pytest.raises(ValueError, match="takes 1 arguments"):
        replace_pattern(symbolic_trace(lambda a: a + 1), lambda u, v: u + v, lambda u: u)


def test_calls_with_side_effects_stay():
    seen = []

    @has_side_effect
    def note(value):
        seen.append(value)

    traced = symbolic_trace(lambda a: a + 1)
    first = next(node for node in traced.graph.nodes if node.op == "placeholder")
    with traced.graph.inserting_after(first):
        traced.graph.call_function(note, (first,))
    traced.graph.eliminate_dead_code()
    traced.recompile()
    traced(X)
    assert len(seen) == 1
