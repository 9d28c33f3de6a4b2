"""The other forms of a call: the method, in place, with `out=`. Every form must give the result.

In: a case of one call. Out: '' where the form is right, else what is wrong.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cases import Decoder, dtype_name, find, leaves, told
from ties import wrong_results

FORMS = ("method", "inplace", "out")


def wrong_form(case: dict, form: str, module: ModuleType, names: dict[str, Any]) -> str:
    name, args, kwargs = case["calls"][0]
    decoder = Decoder(module, case["tensors"], False)
    args, kwargs = decoder(args), decoder(kwargs)
    want = case["want"]
    if form == "method":
        return _compare(_named(args[0], names["method"])(*args[1:], **kwargs), case, module)
    if form == "inplace":
        found = _named(args[0], names["inplace"])(*args[1:], **kwargs)
        return _compare(args[0], case, module) or _same(found, args[0], "self")
    empty = find(module, "empty")
    target = empty(want[0][1].shape, dtype=find(module, want[0][0]))
    found = find(module, name)(*args, out=target, **kwargs)
    return _compare(target, case, module) or _same(found, target, "out")


def suits(case: dict, form: str, module: ModuleType, names: dict[str, Any]) -> bool:
    """Does PyTorch itself have this form of the call?"""
    name, args, _ = case["calls"][0]
    want, tensors = case["want"], case["tensors"]
    single = len(want) == 1 and want[0][0] != "plain"
    if form == "out":
        return bool(names["out"]) and single
    if not names.get(form) or name.startswith("Tensor.") or not args[1]:
        return False
    first = args[1][0]
    if first[0] != "tensor":
        return False
    if form == "method":
        return True
    entry = tensors[first[1]]
    apart = all(s > 0 or n <= 1 for s, n in zip(entry["strides"], entry["shape"], strict=True))
    return single and apart and (entry["shape"], entry["dtype"]) == (want[0][1].shape, want[0][0])


def _named(tensor: Any, name: str) -> Any:
    found = getattr(tensor, name, None)
    if found is None:
        raise AttributeError(f"Tensor.{name} is missing")
    return found


def _compare(value: Any, case: dict, module: ModuleType) -> str:
    return wrong_results(case, told(list(leaves(value)), module))


def _same(found: Any, wanted: Any, name: str) -> str:
    return "" if found is wanted else f"does not return {name}"


__all__ = ["FORMS", "dtype_name", "suits", "wrong_form"]
