"""The rules of pruning: which entries of a parameter get a mask of zeros.

A pruned parameter `name` becomes `name_orig` (the parameter) and `name_mask` (a buffer); before
each `forward` a hook sets the attribute `name` to their product. `remove` makes it permanent.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import rushlight as torch
from rushlight.nn.modules.module import Module

Tensor = torch.Tensor


class BasePruningMethod(ABC):
    """A rule; a subclass has a PRUNING_TYPE and defines `compute_mask`."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Before `forward`: set the attribute to the masked parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask for the scores `t`, with zeros where `default_mask` has some."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter by this rule, with these settings, and behind earlier rules."""
        earlier = [hook for hook in hooks_of(module) if hook._tensor_name == name]
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if earlier:
            container = earlier[0]
            if not isinstance(container, PruningContainer):
                container = PruningContainer(container)
            container.add_pruning_method(method)
            method = container
        current = getattr(module, name)
        scores = current if importance_scores is None else importance_scores
        if scores.shape != current.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if earlier:
            default_mask = getattr(module, f"{name}_mask").detach().clone()
        else:
            default_mask = torch.ones_like(current.detach())
        # A setting that does not fit raises here, before anything is changed.
        mask = method.compute_mask(scores.detach(), default_mask)
        for key, hook in [*module._forward_pre_hooks.items()]:
            if hook in earlier:
                del module._forward_pre_hooks[key]
        if not earlier:
            original = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a tensor times the mask that this rule gives it; no module changes."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        start = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=start)

    def remove(self, module: Module) -> None:
        """Make the masked parameter an ordinary one."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.detach()
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hooks_of(module: Module) -> Iterator[BasePruningMethod]:
    """The pruning rules of a module."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod):
            yield hook


class PruningContainer(BasePruningMethod):
    """Several rules for one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            if not self._pruning_methods:
                self._tensor_name = getattr(method, "_tensor_name", None)  # type: ignore[assignment]
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Put a rule behind the others."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. "
                f"Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, place: int) -> BasePruningMethod:
        return self._pruning_methods[place]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last rule, on what the earlier ones left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        return mask * self._within(method, t, mask)

    @staticmethod
    def _within(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
        """Compute the mask of the part of `t` that is not pruned yet."""
        if method.PRUNING_TYPE == "unstructured":
            left = mask == 1
            part = torch.ones_like(t)
            part[left] = method.compute_mask(t[left], default_mask=mask[left])
            return part
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask=mask)
        if method.PRUNING_TYPE != "structured":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        dim = method.dim % t.dim()  # type: ignore[attr-defined]
        others = [d for d in range(t.dim()) if d != dim]
        left = (mask != 0).any(dim=others) if len(others) == 1 else mask.sum(others) != 0
        places = left.nonzero().flatten()
        part = torch.ones_like(t)
        chosen = method.compute_mask(t.index_select(dim, places), mask.index_select(dim, places))
        return part.index_copy(dim, places, chosen)


class Identity(BasePruningMethod):
    """Nothing is pruned; the mask is there."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Ones."""
        return default_mask


def how_many(amount: float, size: int) -> int:
    """A number of entries from a number or a share."""
    if not isinstance(amount, numbers.Real) or isinstance(amount, bool):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)


def check_amount(amount: Any) -> None:
    """Raise unless it is a number of entries or a share of them."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    is_number = isinstance(amount, numbers.Integral) and amount >= 0
    is_share = not isinstance(amount, numbers.Integral) and 0.0 <= float(amount) <= 1.0
    if not (is_number or is_share):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def check_fits(amount: Any, size: int) -> None:
    """Raise when there are fewer entries than are to go."""
    if isinstance(amount, numbers.Integral) and amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )


class _Amount(BasePruningMethod):
    """A rule that says how many entries go."""

    def __init__(self, amount: Any) -> None:
        check_amount(amount)
        self.amount = amount


class _Unstructured(_Amount):
    """Single entries, the first ones by `_order`."""

    PRUNING_TYPE = "unstructured"

    def _order(self, t: Tensor) -> Tensor:
        """A number for each entry: the smallest go."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros at the entries that go."""
        check_fits(self.amount, t.numel())
        mask = default_mask.clone()
        count = how_many(self.amount, t.numel())
        if count:
            places = torch.topk(self._order(t).view(-1), k=count, largest=False).indices
            mask.view(-1)[places] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Entries at random."""

    def _order(self, t: Tensor) -> Tensor:
        return -torch.rand_like(t)


class L1Unstructured(_Unstructured):
    """The entries with the smallest absolute values."""

    def _order(self, t: Tensor) -> Tensor:
        return t.abs()


def check_structured(t: Tensor) -> None:
    """Raise for vectors."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )


def check_dim(t: Tensor, dim: int) -> None:
    """Raise for a dimension that is not there."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def mask_of_slices(t: Tensor, dim: int, kept: Tensor) -> Tensor:
    """Ones in the kept slices along a dimension."""
    line = torch.zeros(t.size(dim), dtype=t.dtype, device=t.device)
    line[kept] = 1
    shape = [1] * t.dim()
    shape[dim] = -1
    return line.view(shape).expand(t.shape)


class RandomStructured(_Amount):
    """Slices along a dimension at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in the slices with the smallest random numbers."""
        check_structured(t)
        check_dim(t, self.dim)
        check_fits(self.amount, t.size(self.dim))
        count = how_many(self.amount, t.size(self.dim))
        if not count:
            return default_mask
        order = torch.rand(t.size(self.dim)).argsort(descending=True)
        kept = order[: t.size(self.dim) - count].to(t.device)
        return default_mask * mask_of_slices(t, self.dim, kept).to(default_mask.dtype)


class LnStructured(_Amount):
    """The slices along a dimension with the smallest norms."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in the slices with the smallest n-norms."""
        check_structured(t)
        check_dim(t, self.dim)
        check_fits(self.amount, t.size(self.dim))
        count = how_many(self.amount, t.size(self.dim))
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = torch.norm(t, p=self.n, dim=others)
        kept = torch.topk(norms, k=t.size(self.dim) - count).indices
        return default_mask * mask_of_slices(t, self.dim, kept).to(default_mask.dtype)


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros where either mask has some."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} does not match the mask's "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)
