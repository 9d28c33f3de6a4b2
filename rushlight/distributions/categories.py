"""Distributions over categories: one of them, a one-hot vector, counts, and relaxed ones."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions.counts import Binomial, only_one
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = [
    "Categorical", "Multinomial",
    "OneHotCategorical", "OneHotCategoricalStraightThrough",     ]  # fmt: skip


class Categorical(Distribution):
    """One of K categories, as its number. `probs` need not add up to 1.

    >>> import rushlight as torch
    >>> torch.distributions.Categorical(torch.tensor([0.25, 0.75])).log_prob(torch.tensor(1))
    tensor(-0.2877)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        only_one(probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            name = "probs" if probs is not None else "logits"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._param = self.probs if probs is not None else self.logits
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = {"probs": 1, "logits": 1, "_param": 1}
        new = self._expanded(Categorical, batch_shape, names, _instance)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        return self._param.size()

    @property
    def mean(self) -> Any:
        return self.probs.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self.probs.new_full(self._extended_shape(), math.nan)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = torch.Size(sample_shape)
        with torch.no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            drawn = torch.multinomial(flat, shape.numel(), True).T
            return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        index, chances = torch.broadcast_tensors(index, self.logits)
        return chances.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        low = torch.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=low) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.reshape(-1, *(1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OverCategorical(Distribution):
    """What has a Categorical inside, and an event of K numbers."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _categorical: Any

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape

    def _expand_over(self, cls: type, batch_shape: Any, _instance: Any) -> Any:
        new = self._get_checked_instance(cls, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new


class OneHotCategorical(OverCategorical):
    """One of K categories, as a vector with one 1."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expand_over(OneHotCategorical, batch_shape, _instance)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._one_hot(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index: Any) -> Any:
        return torch.nn.functional.one_hot(index, self.probs.shape[-1]).to(self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape)).detach()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(n, *(1,) * len(self.batch_shape), n)
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As OneHotCategorical; the gradient of a draw is that of the chances."""

    has_rsample = True

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expand_over(OneHotCategoricalStraightThrough, batch_shape, _instance)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverCategorical):
    """How often each category comes in `total_count` draws."""

    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expand_over(Multinomial, batch_shape, _instance)
        new.total_count = self.total_count
        new._binomial = self._binomial.expand((*batch_shape, *self.event_shape))
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = torch.Size(sample_shape)
        drawn = self._categorical.sample((self.total_count, *shape))
        counts = self.probs.new_zeros(self._extended_shape(shape))
        last_first = drawn.permute(*range(1, drawn.dim()), 0)
        ones = torch.ones_like(last_first, dtype=counts.dtype)
        return counts.scatter_add(-1, last_first, ones)

    def entropy(self) -> Any:
        n = self.probs.new_tensor(float(self.total_count))
        chances = torch.exp(self._binomial.log_prob(self._support_values()))
        weighted = (chances * torch.lgamma(self._support_values() + 1)).sum([0, -1])
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + weighted

    def _support_values(self) -> Any:
        return self._binomial.enumerate_support(expand=False)[1:]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        logits = torch.where((value == 0) & (logits == -math.inf), 0.0, logits)
        return ways + (logits * value).sum(-1)
