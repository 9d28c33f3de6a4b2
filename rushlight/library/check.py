"""`opcheck`: does an operator do what it was registered to do?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.library.define import find_operator
from rushlight.library.operator import Operator, leaves

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor",
         "test_aot_dispatch_dynamic")  # fmt: skip


class OpCheckError(Exception):
    """An operator failed a test of `opcheck`."""


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    test_utils: str | Sequence[str] = TESTS, raise_exception: bool = True, atol: Any = None,
    rtol: Any = None,
) -> dict[str, str]:  # fmt: skip
    """Call an operator in several ways with these arguments and compare; {test: "SUCCESS"}.

    The tests: only the arguments named in `mutates_args` change; results that need gradients have
    a gradient; the function for tensors without data gives the right shapes and dtypes; compiled
    and plain calls agree.
    """
    operator = find_operator(op)
    wanted = (test_utils,) if isinstance(test_utils, str) else test_utils
    results: dict[str, str] = {}
    for name in wanted:
        try:
            _RUN[name](operator, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = str(error)
    return results


def _copied(values: Any) -> Any:
    if isinstance(values, torch.Tensor):
        return values.detach().clone().requires_grad_(values.requires_grad)
    if isinstance(values, list | tuple):
        return type(values)(map(_copied, values))
    return values


def _schema(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given, before = _copied(args), _copied(args)
    with torch.no_grad():
        operator(*given, **kwargs)
    for param, now, then in zip(operator._schema.arguments, given, before, strict=False):
        for a, b in zip(leaves(now), leaves(then), strict=True):
            changed = isinstance(a, torch.Tensor) and not torch.equal(a, b)
            if changed and not param.is_write:
                raise AssertionError(
                    f"Argument {param.name} is not defined as mutable but was mutated"
                )


def _autograd(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = _copied(args)
    outputs = [out for out in leaves(operator(*given, **kwargs)) if isinstance(out, torch.Tensor)]
    differentiable = [out for out in outputs if out.requires_grad]
    if differentiable:
        sum(out.sum() for out in differentiable).backward()


def _fake(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if "Meta" not in operator.kernels:
        return
    with torch.no_grad():
        real = list(leaves(operator(*_copied(args), **kwargs)))
        fake = list(leaves(operator._call(operator.kernels["Meta"], operator._bind(args, kwargs))))
    for a, b in zip(real, fake, strict=True):
        if isinstance(a, torch.Tensor) and (a.shape, a.dtype) != (b.shape, b.dtype):
            raise AssertionError(
                f"the operator gave {a.dtype}{list(a.shape)}, its fake {b.dtype}{list(b.shape)}"
            )


def _compiled(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with torch.no_grad():
        plain = operator(*_copied(args), **kwargs)
        again = torch.compile(lambda *values: operator(*values, **kwargs))
        for _ in range(3):
            torch.testing.assert_close(again(*_copied(args)), plain)


_RUN = {
    "test_schema": _schema, "test_autograd_registration": _autograd, "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _compiled, "test_aot_dispatch_static": _compiled,
}  # fmt: skip
