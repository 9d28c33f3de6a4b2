"""Sequences of different lengths: padded to one tensor, or packed.

A packed sequence holds the rows of all sequences step by step, the longest sequence first:
`batch_sizes[t]` rows belong to step t. Lengths and batch sizes are looked at; values are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import rushlight as torch

Tensor = torch.Tensor
Self = TypeVar("Self", bound="PackedSequence")
NOT_SORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
    "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
    "requirement if you do not need ONNX exportability."
)


class PackedSequence_(NamedTuple):
    """The four fields of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Rows of several sequences, step by step; `pack_padded_sequence` and others make it.

    Example:
        >>> packed = pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> packed.data.tolist(), packed.batch_sizes.tolist()
        ([1, 3, 2], [2, 1])
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Take the fields; the old form gives data and batch_sizes as a pair."""
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move or convert the data; the indices follow to its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        moved = [
            None if index is None else index.to(data.device)
            for index in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move to the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move to a GPU."""
        return self.to(*args, device="cuda", **kwargs)

    def double(self: Self) -> Self:
        """Convert to float64."""
        return self.to(dtype=torch.double)

    def float(self: Self) -> Self:
        """Convert to float32."""
        return self.to(dtype=torch.float)

    def half(self: Self) -> Self:
        """Convert to float16."""
        return self.to(dtype=torch.half)

    def long(self: Self) -> Self:
        """Convert to int64."""
        return self.to(dtype=torch.long)

    def int(self: Self) -> Self:
        """Convert to int32."""
        return self.to(dtype=torch.int)

    def short(self: Self) -> Self:
        """Convert to int16."""
        return self.to(dtype=torch.short)

    def char(self: Self) -> Self:
        """Convert to int8."""
        return self.to(dtype=torch.int8)

    def byte(self: Self) -> Self:
        """Convert to uint8."""
        return self.to(dtype=torch.uint8)

    def pin_memory(self: Self) -> Self:
        """Move to memory from which a GPU copies faster."""
        fields = (self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
        return type(self)(*(None if field is None else field.pin_memory() for field in fields))

    @property
    def is_cuda(self) -> bool:
        """Say if the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Say if the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes the given one.

    Example:
        >>> invert_permutation(torch.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def steps_of(batch_sizes: list[int]) -> list[list[int]]:
    """For each step, the place of its rows in (steps, batch) flattened row by row."""
    batch = batch_sizes[0]
    return [[t * batch + row for row in range(size)] for t, size in enumerate(batch_sizes)]


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences that were padded to one length.

    Args:
        input: (T, B, ...), or (B, T, ...) with `batch_first`.
        lengths: the length of each sequence.
        enforce_sorted: raise unless the lengths decrease; else they are sorted here.

    Example:
        >>> packed = pack_padded_sequence(torch.tensor([[1, 3], [2, 0]]), [2, 1])
        >>> packed.data.tolist(), packed.batch_sizes.tolist()
        ([1, 3, 2], [2, 1])
    """
    counts = torch.as_tensor(lengths, dtype=torch.int64)
    sorted_indices = None
    if not enforce_sorted:
        counts, sorted_indices = counts.sort(descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    sizes = counts.tolist()
    input = input.transpose(0, 1) if batch_first else input
    check_lengths(sizes, input)
    batch_sizes = [sum(size > t for size in sizes) for t in range(max(sizes))]
    flat = input.reshape(input.size(0) * input.size(1), *input.shape[2:])
    places = torch.tensor([*itertools.chain.from_iterable(steps_of(batch_sizes))])
    data = flat.index_select(0, places.to(input.device))
    return PackedSequence(data, torch.tensor(batch_sizes), sorted_indices, None)


def check_lengths(sizes: list[int], input: Tensor) -> None:
    """Raise when these cannot be the lengths of sequences in (T, B, ...)."""
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(sizes) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={input.size(1)})"
        )
    if any(size <= 0 for size in sizes):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(NOT_SORTED)
    if sizes[0] > input.size(0):
        raise RuntimeError(
            f"Expected all lengths to be at most the length of the input, {input.size(0)}, but "
            f"got {sizes[0]}"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`: return the padded tensor and the lengths.

    Example:
        >>> packed = pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
    batch_sizes = sequence.batch_sizes.tolist()
    steps, batch = len(batch_sizes), batch_sizes[0]
    if total_length is not None and total_length < steps:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {steps}"
        )
    length = steps if total_length is None else total_length
    data = sequence.data
    # Row 0 of the table is the padding; every place without a value reads it.
    table = torch.cat([data.new_full((1, *data.shape[1:]), padding_value), data])
    rows = [0] * (length * batch)
    for number, place in enumerate(itertools.chain.from_iterable(steps_of(batch_sizes))):
        rows[place] = number + 1
    padded = table.index_select(0, torch.tensor(rows).to(data.device))
    padded = padded.reshape(length, batch, *data.shape[1:])
    lengths = torch.tensor([sum(size > row for size in batch_sizes) for row in range(batch)])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack tensors of different lengths, filled up with `padding_value`.

    Example:
        >>> pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    rows = list(sequences)
    if not rows:
        raise RuntimeError("received an empty list of sequences")
    length = max(row.size(0) for row in rows)
    padded = [padded_to(row, length, padding_value, padding_side == "left") for row in rows]
    return torch.stack(padded, 0 if batch_first else 1)


def padded_to(row: Tensor, length: int, value: float, at_front: bool) -> Tensor:
    """Fill a tensor up to a length along its first dimension."""
    missing = length - row.size(0)
    if missing == 0:
        return row
    fill = row.new_full((missing, *row.shape[1:]), value)
    return torch.cat([fill, row] if at_front else [row, fill])


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Undo `pad_sequence`: return the tensors without their padding.

    Example:
        >>> unpad_sequence(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1]), batch_first=True)
        [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=False)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors of different lengths.

    Example:
        >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data.tolist()
        [1, 3, 2]
    """
    lengths = torch.as_tensor([sequence.size(0) for sequence in sequences])
    padded = pad_sequence(sequences)
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo `pack_sequence`.

    Example:
        >>> unpack_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
