"""A step length that keeps the strong Wolfe conditions (Nocedal and Wright, section 3.5).

In: a function of the step length that gives the loss and the gradient. Out: a length where the
loss fell enough and the slope along the direction is flat enough, or the best one that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass
class StrongWolfe:
    """One search along a direction.

    Args:
        evaluate: gives the loss and the gradient at a step length.
        start: the point with the step length 0.
        c1, c2: how much the loss must fall, how flat the slope must become.
        tolerance_change: an interval in which no parameter moves further is small enough.
    """

    evaluate: Callable[[float], tuple[float, torch.Tensor]]
    direction: torch.Tensor
    start: Point
    c1: float = 1e-4
    c2: float = 0.9
    tolerance_change: float = 1e-9
    most: int = 25
    count: int = 0

    def run(self, t: float) -> Point:
        """Find a point from a first step length; `count` says how often was evaluated."""
        found = self._bracket(t)
        return found if isinstance(found, Point) else self._narrow(found)

    def _point_at(self, t: float) -> Point:
        self.count += 1
        loss, grad = self.evaluate(t)
        return Point(t, loss, grad.clone(), grad.dot(self.direction).item())

    def _is_too_high(self, point: Point) -> bool:
        return point.loss > self.start.loss + self.c1 * point.t * self.start.slope

    def _is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -self.c2 * self.start.slope

    def _bracket(self, t: float) -> Point | list[Point]:
        """Go on until a point is good, or an interval holds a good one."""
        previous, point = self.start, self._point_at(t)
        while self.count <= self.most:
            grew = self.count > 2 and point.loss >= previous.loss
            if self._is_too_high(point) or grew:
                return [previous, point]
            if self._is_flat(point):
                return point
            if point.slope >= 0:
                return [previous, point]
            low = point.t + 0.01 * (point.t - previous.t)
            t = cubic_minimum(previous, point, low, point.t * 10)
            previous, point = point, self._point_at(t)
        return [self.start, point]

    def _narrow(self, bracket: list[Point]) -> Point:
        """Make the interval smaller until its better end is good; return that end."""
        best, other = sorted(bracket, key=lambda point: point.loss)
        reach = self.direction.abs().max().item()
        is_slow = False
        while self.count <= self.most:
            low, high = sorted((best.t, other.t))
            if (high - low) * reach < self.tolerance_change:
                break
            t, is_slow = self._inside(cubic_minimum(best, other, low, high), low, high, is_slow)
            point = self._point_at(t)
            if self._is_too_high(point) or point.loss >= best.loss:
                best, other = sorted((best, point), key=lambda p: p.loss)
                continue
            if self._is_flat(point):
                return point
            if point.slope * (other.t - best.t) >= 0:
                other = best
            best = point
        return best

    @staticmethod
    def _inside(t: float, low: float, high: float, is_slow: bool) -> tuple[float, bool]:
        """Keep away from the ends of an interval; once it may be near."""
        margin = 0.1 * (high - low)
        if min(high - t, t - low) >= margin:
            return t, False
        if is_slow or t >= high or t <= low:
            return (high - margin if abs(t - high) < abs(t - low) else low + margin), False
        return t, True
