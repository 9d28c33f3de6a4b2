"""Handles of hooks and names of types."""

import pickle
from collections import OrderedDict

import rushlight as torch

RemovableHandle = torch.utils.hooks.RemovableHandle


def test_handle_removes_its_hook_and_its_marks():
    hooks, marks = OrderedDict(), OrderedDict()
    first, second = RemovableHandle(hooks, extra_dict=marks), RemovableHandle(hooks)
    assert first.id != second.id
    hooks[first.id], hooks[second.id], marks[first.id] = "a", "b", True
    first.remove()
    assert list(hooks.values()) == ["b"] and not marks
    with second:
        pass
    assert not hooks


def test_handle_outlives_its_dict():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    del hooks
    handle.remove()


def test_handle_pickles_with_its_dict():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = "a"
    handle_copy, hooks_copy = pickle.loads(pickle.dumps((handle, hooks)))
    handle_copy.remove()
    assert not hooks_copy and hooks


def test_typename():
    assert torch.typename(3) == "int" and torch.typename("x") == "str"
    assert torch.typename(torch.zeros(1)) == "torch.FloatTensor"
