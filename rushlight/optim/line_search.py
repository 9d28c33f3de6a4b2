"""A step length that keeps the strong Wolfe conditions (Nocedal and Wright, section 3.5).

In: a function of the step length that gives the loss and the gradient. Out: a length where the
loss fell enough and the slope along the direction is flat enough, or the best one that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import rushlight as torch


class Point(NamedTuple):
    """A step length, the loss there, the gradient, and its slope along the direction."""

    t: float
    loss: float
    grad: torch.Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes is least, within [low, high]."""
    left, right = (a, b) if a.t <= b.t else (b, a)
    if left.t == right.t:
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    bottom = right.slope - left.slope + 2 * d2
    if bottom == 0:
        return (low + high) / 2
    place = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / bottom)
    return min(max(place, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, torch.Tensor]],
    t: float,
    direction: torch.Tensor,
    start: Point,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_evaluations: int = 25,
) -> tuple[Point, int]:
    """Return the point that was chosen and how often the function was evaluated."""
    reach = direction.abs().max().item()

    def point_at(t: float) -> Point:
        loss, grad = evaluate(t)
        return Point(t, loss, grad.clone(), grad.dot(direction).item())

    def is_too_high(point: Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    previous, point, count = start, point_at(t), 1
    while True:  # go on until the interval holds a good point
        if count > max_evaluations:
            bracket = [start, point]
            break
        if is_too_high(point) or (count > 1 and point.loss >= previous.loss):
            bracket = [previous, point]
            break
        if is_flat(point):
            return point, count
        if point.slope >= 0:
            bracket = [previous, point]
            break
        low = point.t + 0.01 * (point.t - previous.t)
        t = cubic_minimum(previous, point, low, point.t * 10)
        previous, point, count = point, point_at(t), count + 1
        if count == max_evaluations:
            bracket = [start, point]
            break
    return narrow(
        bracket, point_at, is_too_high, is_flat, count, max_evaluations, reach, tolerance_change
    )


def narrow(
    bracket: list[Point],
    point_at: Callable[[float], Point],
    is_too_high: Callable[[Point], bool],
    is_flat: Callable[[Point], bool],
    count: int,
    max_evaluations: int,
    reach: float,
    tolerance_change: float,
) -> tuple[Point, int]:
    """Make the interval smaller until its better end is good; return that end."""
    best, other = sorted(bracket, key=lambda point: point.loss)
    had_slow_progress = False
    while count < max_evaluations:
        low, high = sorted((best.t, other.t))
        if (high - low) * reach < tolerance_change:
            break
        t = cubic_minimum(best, other, low, high)
        margin = 0.1 * (high - low)
        if min(high - t, t - low) < margin:  # too near to an end: once is allowed
            if had_slow_progress or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                had_slow_progress = False
            else:
                had_slow_progress = True
        else:
            had_slow_progress = False
        point, count = point_at(t), count + 1
        if is_too_high(point) or point.loss >= best.loss:
            other = point
            best, other = sorted((best, other), key=lambda p: p.loss)
            continue
        if is_flat(point):
            return point, count
        if point.slope * (other.t - best.t) >= 0:
            other = best
        best = point
    return best, count
