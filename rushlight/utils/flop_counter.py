"""torch.utils.flop_counter: the multiplications and additions of a program's products.

    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    counter.get_total_flops()

Counted are products of matrices, convolutions and attention, a multiplication and an addition as
two, as PyTorch does; and in backward as much again for each operand that gets a gradient.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.overrides import TorchFunctionMode

__getattr__ = _names.getattr_of(__name__)
__all__ = ["FlopCounterMode", "register_flop_formula"]
Formula = Callable[..., int]


def _product(a: Any, b: Any, *_: Any, out: Any, **__: Any) -> int:
    return 2 * out.numel() * a.shape[-1]


def _added(bias: Any, a: Any, b: Any, *_: Any, out: Any, **__: Any) -> int:
    batches = a.shape[0] if a.dim() == 3 and out.dim() == 2 else 1
    return 2 * out.numel() * a.shape[-1] * batches


def _einsum(text: Any, *operands: Any, out: Any, **_: Any) -> int:
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list) else operands
    if len(given) < 2 or not isinstance(text, str) or "..." in text:
        return 0
    terms = text.replace(" ", "").partition("->")[0].split(",")
    sizes = {c: n for term, x in zip(terms, given, strict=True)
             for c, n in zip(term, x.shape, strict=True)}  # fmt: skip
    return 2 * math.prod(sizes.values()) * (len(given) - 1)


def _conv(x: Any, weight: Any, *_: Any, out: Any, **__: Any) -> int:
    return 2 * out.numel() * math.prod(weight.shape[1:])


def _conv_transposed(x: Any, weight: Any, *_: Any, out: Any, **__: Any) -> int:
    return 2 * x.numel() * math.prod(weight.shape[1:])


def _attention(q: Any, k: Any, v: Any, *_: Any, out: Any, **__: Any) -> int:
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "__matmul__", "linear", "mv", "dot"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), _added),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys((f"conv_transpose{n}d" for n in (1, 2, 3)), _conv_transposed),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """A decorator: the function gives the count of these functions' calls, from their arguments
    and `out`: shapes in place of tensors, or the tensors themselves with `get_raw`."""

    def register(formula: Formula) -> Formula:
        several = targets if isinstance(targets, (list, tuple)) else [targets]
        _FORMULAS.update(dict.fromkeys(map(_name_of, several), _user_formula(formula, get_raw)))
        return formula

    return register


def _name_of(target: Any) -> str:
    return getattr(target, "__name__", str(target)).partition(".")[0]


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, torch.Tensor) else value


def _user_formula(formula: Formula, get_raw: bool) -> Formula:
    """A user's formula, called as those above are."""

    def by_shapes(*args: Any, out: Any, **kwargs: Any) -> int:
        named = {name: _shape(value) for name, value in kwargs.items()}
        return formula(*map(_shape, args), out_shape=_shape(out), **named)

    def by_tensors(*args: Any, out: Any, **kwargs: Any) -> int:
        return formula(*args, out_val=out, **kwargs)

    return by_tensors if get_raw else by_shapes


class FlopCounterMode(TorchFunctionMode):
    """Counts inside of the block, in all and by module.

    mods: accepted; every module is followed. depth: of the modules in the table. display: print
    the table at the end. custom_mapping: function -> formula, as for `register_flop_formula`, in
    this counter alone.
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True,
        custom_mapping: dict[Any, Formula] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._within: list[tuple[Any, str]] = []  # the modules that run, with their names
        self._hooks: list[Any] = []
        self._own_formulas = {
            _name_of(target): _user_formula(formula, getattr(formula, "_get_raw", False))
            for target, formula in (custom_mapping or {}).items()
        }

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        hooks = torch.nn.modules.module
        self._hooks = [hooks.register_module_forward_pre_hook(self._into),
                       hooks.register_module_forward_hook(self._out_of)]  # fmt: skip
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self.display:
            print(self.get_table(self.depth))

    def _into(self, module: Any, args: Any) -> None:
        own = type(module).__name__
        if self._within:
            parent, path = self._within[-1]
            inner = (name for name, found in parent.named_modules() if found is module)
            own = f"{path}.{next(inner, own)}"
        self._within.append((module, own))

    def _out_of(self, module: Any, args: Any, out: Any) -> None:
        self._within.pop()

    def _count(self, name: str, flops: int, paths: list[str]) -> None:
        for path in dict.fromkeys(["Global", *paths]):
            self.flop_counts[path][getattr(torch.ops.aten, name, name)] += flops

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        formula = self._own_formulas.get(name) or _FORMULAS.get(name)
        if formula is None:
            return func(*args, **kwargs)
        out = func(*args, **kwargs)
        flops = formula(*args, **{**kwargs, "out": out})
        paths = [path for _, path in self._within]
        self._count(name, flops, paths)
        operands = [a for a in (*args, *kwargs.values())
                    if isinstance(a, torch.Tensor) and a.dim() > 1 and a.requires_grad]  # fmt: skip
        if operands and out.requires_grad:
            # The scores are computed again: 5 products where forward has 2.
            often = 2.5 if formula is _attention else len(operands)
            out.register_hook(lambda grad: self._count(
                f"{name}_backward", int(often * flops), paths))  # fmt: skip
        return out

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Module's name -> function -> count."""
        return {path: dict(counts) for path, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text."""
        depth, total = self.depth if depth is None else depth, max(self.get_total_flops(), 1)
        lines = [f"{'Module':40} {'FLOP':>16} {'% Total':>8}"]
        for path, counts in self.flop_counts.items():
            if path.count(".") <= depth:
                own = sum(counts.values())
                lines.append(f"{path:40} {own:16,d} {own / total:8.2%}")
        return "\n".join(lines)
