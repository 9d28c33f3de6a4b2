"""Which values a product finds stored, though it could compute them while it packs."""

from __future__ import annotations

from compile_parts import gradients, leaf, points_of

import rushlight.ops as O
from rushlight.ir.node import Node


def reasons(*roots: Node) -> set[str]:
    return set(points_of(*roots).reasons.values())


def convolution(width: int, padding: int = 1, stride: int = 1) -> Node:
    x, w = leaf(2, 3, width, width), leaf(8, 3, 3, 3)
    return O.conv2d(x, w, None, stride=(stride,) * 2, padding=(padding,) * 2)


def test_padding_around_whole_rows_of_windows_is_stored() -> None:
    assert "padded_windows" in reasons(convolution(32))


def test_padding_of_other_windows_is_not() -> None:
    for out in (convolution(30), convolution(32, stride=2), convolution(32, padding=0)):
        assert "padded_windows" not in reasons(out)


def test_the_gradient_of_a_norm_is_stored_for_the_product_that_reads_it() -> None:
    x, w = leaf(64, 3), leaf(3, 8)
    product = O.dot(x, w)
    out = O.batch_norm(product, leaf(8), leaf(8), 1e-5)
    assert "operand_of_rows" in reasons(*gradients(out, [w]))


def test_what_is_made_of_rows_alone_is_not() -> None:
    x, w = leaf(64, 8), leaf(8, 3)
    unit = O.softmax(x, 1)
    assert "operand_of_rows" not in reasons(O.dot(unit, w))
