"""torch.utils._pytree: nested containers as lists of leaves, and back."""

import collections

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree

Point = collections.namedtuple("Point", "x y")
TREES = [
    1, None, [], (1, [2, 3]), {"a": 1, "b": (2, {"c": 3})}, Point(1, [2]),
    collections.OrderedDict(b=1, a=2), collections.defaultdict(list, a=[1]),
    collections.deque([1, 2], maxlen=3), [torch.ones(1), {"k": torch.zeros(2)}],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES[:-1])
def test_there_and_back(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert spec.num_leaves == len(leaves) == len(pytree.tree_leaves(tree))
    assert pytree.tree_structure(tree) == spec


def test_maps():
    assert pytree.tree_map(lambda x: x + 1, {"a": (1, 2)}) == {"a": (2, 3)}
    assert pytree.tree_map(lambda x, y: x + y, [1, 2], [3, 4]) == [4, 6]
    found = pytree.tree_map_only(int, lambda x: -x, (1, "s"))
    assert found == (-1, "s")
    assert pytree.tree_all(lambda x: x > 0, [1, 2]) and pytree.tree_any(lambda x: x > 1, [1, 2])


def test_own_containers():
    class Box:
        def __init__(self, inner):
            self.inner = inner

    pytree.register_pytree_node(Box, lambda b: ([b.inner], None), lambda kids, _: Box(*kids))
    assert pytree.tree_map(lambda x: x * 2, Box([1, 2])).inner == [2, 4]


def test_a_wrong_number_of_leaves_is_refused():
    _, spec = pytree.tree_flatten([1, 2])
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], spec)


def test_results_with_named_fields_are_containers():
    found = torch.tensor([[1.0, 5.0], [4.0, 2.0]]).max(0)
    leaves, spec = pytree.tree_flatten(found)
    assert [leaf.tolist() for leaf in leaves] == [[4.0, 5.0], [1, 0]]
    again = pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec)
    assert type(again) is type(found) and again.values.tolist() == [5.0, 6.0]
