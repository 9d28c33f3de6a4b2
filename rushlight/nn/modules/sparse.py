"""Tables whose rows are looked up by integer: Embedding, EmbeddingBag."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


class _Table(Module):
    """What both share: the table, its starting values, the row that counts for nothing."""

    def _make_table(
        self,
        shape: tuple[int, int],
        padding_idx: int | None,
        given: torch.Tensor | None,
        freeze: bool,
        options: dict[str, Any],
        padding_error: str,
    ) -> None:
        self.num_embeddings, self.embedding_dim = shape
        rows = max(self.num_embeddings, 1)
        if padding_idx is not None:
            if not -self.num_embeddings <= padding_idx < rows:
                raise AssertionError(padding_error)
            padding_idx %= rows
        self.padding_idx = padding_idx
        if given is not None and tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        table = torch.empty(shape, **options) if given is None else given
        self.weight = Parameter(table, requires_grad=not freeze)
        if given is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def _from_table(cls, embeddings: torch.Tensor, **settings: Any) -> Any:
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(num_embeddings=rows, embedding_dim=columns, _weight=embeddings, **settings)

    def _shown(self, *names: str, defaults: dict[str, Any]) -> str:
        """The sizes and those settings that are not the default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name in names:
            value = getattr(self, name)
            if value != defaults[name]:
                text += f", {name}={value!r}"
        return text


TABLE_DEFAULTS: dict[str, Any] = {
    "padding_idx": None,
    "max_norm": None,
    "norm_type": 2,
    "scale_grad_by_freq": False,
    "sparse": False,
    "mode": None,
}


class Embedding(_Table):
    """Look up rows of `weight`; the row `padding_idx` starts at zero and gets no gradient.

    Example:
        >>> Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
        torch.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: torch.Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_table(
            (num_embeddings, embedding_dim),
            padding_idx,
            _weight,
            _freeze,
            {"device": device, "dtype": dtype},
            "Padding_idx must be within num_embeddings",
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: torch.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Make an Embedding from a table; `freeze` keeps it out of training."""
        return cls._from_table(
            embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def extra_repr(self) -> str:
        names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
        return self._shown(*names, defaults=TABLE_DEFAULTS)


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows of each bag of indices, without the rows themselves.

    Example:
        >>> bag = EmbeddingBag(10, 3, mode="sum")
        >>> bag(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3])).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: torch.Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make_table(
            (num_embeddings, embedding_dim),
            padding_idx,
            _weight,
            False,
            {"device": device, "dtype": dtype},
            "padding_idx must be within num_embeddings",
        )

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return (bags, embedding_dim) of (bags, length), or of one row with offsets."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: torch.Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Make an EmbeddingBag from a table; `freeze` keeps it out of training."""
        made = cls._from_table(
            embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made

    def extra_repr(self) -> str:
        names = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")
        return self._shown(*names, defaults=TABLE_DEFAULTS)
