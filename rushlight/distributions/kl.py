"""`kl_divergence(p, q)`, and the table of formulas by pairs of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.distributions.distribution import ExponentialFamily

__getattr__ = _names.getattr_of(__name__)
__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator: the function gives KL(p || q) for these classes and those derived of them."""
    for kind, name in ((type_p, "type_p"), (type_q, "type_q")):
        if not isinstance(kind, type):  # packages have bases of their own beside Distribution
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _KL_REGISTRY[type_p, type_q] = function
        return function

    return decorate


def _distance(kind: type, base: type) -> int:
    return kind.__mro__.index(base)


def _find(type_p: type, type_q: type) -> Callable[[Any, Any], Any]:
    """The formula of the nearest pair of base classes, by p first."""
    fitting = [
        pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])
    ]
    if not fitting:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type_p.__name__} and q type "
            f"{type_q.__name__}"
        )
    nearest = min(
        fitting, key=lambda pair: (_distance(type_p, pair[0]), _distance(type_q, pair[1]))
    )
    return _KL_REGISTRY[nearest]


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence KL(p || q), for each element of the batch.

    >>> from rushlight.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    return _find(type(p), type(q))(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily(p: Any, q: Any) -> Any:
    """By the gradient of the log normalizer (Bregman)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    params = [x.detach().requires_grad_() for x in p._natural_params]
    normal = p._log_normalizer(*params)
    gradients = torch.autograd.grad(normal.sum(), params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normal
    for a, b, gradient in zip(params, q._natural_params, gradients, strict=True):
        term = (b - a) * gradient
        extra = len(q.event_shape)
        if extra:
            term = term.reshape(term.shape[: term.dim() - extra] + (-1,)).sum(-1)
        result = result - term
    return result
