"""torch.nn._reduction: the words for reductions, as losses of other packages ask for them."""

from __future__ import annotations

from rushlight.nn.modules.loss import old_reduction

NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: none 0, mean 1, sum 2."""
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that PyTorch's two old flags mean."""
    return old_reduction(size_average, reduce, emit_warning)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of that reduction."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
