"""The host's side of all kernels: buffers become operands that TMA fetches, groups are counted.

In: `Work`, `Kernels` of its chip, pointers to its buffers, its sizes, a stream. Out: launches.
Always true: it is traced, so what it asks of `Work` is decided when a kernel is compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutlass import cute

from rushlight.backends.cute.epilogue_impl import number_of, position


@dataclass(frozen=True)
class Kernels:
    """kernel   what is launched: (loads, operands, buffers, words, sizes, work)
    loads    (work, operands) -> for each: how it is loaded, and it as TMA sees it
    threads  (work) -> threads of a group
    """

    kernel: Any
    loads: Callable[[Any, Any], list[tuple[Any, Any]]]
    threads: Callable[[Any], int]


def launch(kernels, memories, numbers, sizes, stream, work) -> None:
    """Launches the kernels of `work`, one after the other. `memories`: a pointer for each buffer of
    the program; `numbers`: to the words of the launch."""
    for part in work.parts:
        launch_one(kernels, memories, numbers, sizes, stream, part)


def launch_one(kernels, memories, numbers, sizes, stream, work) -> None:
    """Launches a kernel, a group for each block of results."""
    known = dict(zip(work.size_names, sizes, strict=False))
    batch = number_of(work.batch, known)
    wholes = [matrix(work, one, batch, memories, known) for one in work.operands]
    loads, coordinates = zip(*kernels.loads(work, wholes), strict=True)
    flat = tuple(
        cute.make_tensor(pointer, cute.make_layout(number_of(buffer.size, known)))
        for pointer, buffer in zip(memories, work.program.buffers, strict=True)
    )
    words = cute.make_tensor(numbers, cute.make_layout(work.words))
    kernels.kernel(loads, coordinates, flat, words, sizes, work).launch(
        grid=(*blocks(work, wholes), batch), block=(kernels.threads(work), 1, 1), stream=stream
    )


def matrix(work, one, batch, memories, sizes):
    """A tensor (rows, columns, batch) over a buffer, as an operand's matrix says."""
    side, memory = one.matrix, memories[position(work, one.matrix.buffer)]
    offset, lead, across, along = (
        number_of(value, sizes) for value in (side.offset, side.lead, side.across, side.along)
    )
    shape = (
        number_of(one.rows, sizes), number_of(one.columns, sizes),
        batch // side.share if side.lead != 0 else 1,
    )  # fmt: skip
    layout = cute.make_layout(shape, stride=(across, along, lead))
    return cute.make_tensor((memory + offset).align(16), layout)


def blocks(work, wholes):
    """How many groups share the rows and the columns of a result: attention's have all columns."""
    rows, columns = (
        cute.ceil_div(x.shape[0], one.tile[0])
        for x, one in zip(wholes[:2], work.operands, strict=False)
    )
    return rows, columns if work.side is None else 1
