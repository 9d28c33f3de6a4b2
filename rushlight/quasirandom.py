"""torch.quasirandom: Sobol points, which fill the unit cube more evenly than random ones.

Point number i is an exclusive or of the direction numbers that the Gray code of i selects, so any
stretch of the sequence is one compiled expression. The direction numbers are those of Joe and Kuo
(criterion D(6)), as PyTorch's. Those of two dimensions follow from their polynomials; those of more
were found by a search, and are read from SciPy's table where SciPy is installed.

>>> SobolEngine(2).draw(3)
tensor([[0.0000, 0.0000],
        [0.5000, 0.5000],
        [0.7500, 0.2500]])
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = ["SobolEngine"]

# The polynomials (1 and x + 1) of the first dimensions and their first numbers, which have no
# choice: an odd number below 2.
DERIVED = (np.array([1, 3]), np.array([[1], [1]]))


class SobolEngine:
    """Draws the points of a Sobol sequence in `dimension` dimensions, up to 21201.

    `scramble` turns the points by a random matrix and shift (`seed` makes them repeatable): the
    points stay as even, and are free of the sequence's own patterns. More than two dimensions need
    SciPy (its table of direction numbers): NotImplementedError says so.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = torch.from_numpy(_directions(dimension, self.MAXBIT))
        self.shift = torch.zeros(dimension, dtype=torch.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, shape (n, dimension), of `dtype` (the default one if None)."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        points = self._points(self.num_generated, n)
        result = points.to(dtype) * 2.0**-self.MAXBIT
        if self.num_generated == 0 and n:
            # PyTorch rounds the first point to the default dtype before it takes `dtype`.
            result = torch.cat([self._first_point.to(dtype), result[1:]])
        self._advance(n, points)
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2**m points; all points together must be a power of two, to be balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out `n` points."""
        if n:
            self._advance(n, self._points(self.num_generated + n - 1, 1))
        return self

    def _advance(self, n: int, points: Any) -> None:
        if n:
            self.quasi.copy_(points[-1])
        self.num_generated += n

    def _points(self, start: int, count: int) -> Any:
        """Points number `start` and following, as whole numbers of MAXBIT bits."""
        if not 0 <= count or start + count > 2**self.MAXBIT:
            raise ValueError(f"SobolEngine: points 0 to 2**{self.MAXBIT}, got {start}+{count}")
        # The start is data, so that one program serves every stretch of this length.
        number = torch.arange(count, device="cpu") + torch.tensor(start, device="cpu")
        gray = (number ^ (number >> 1)).unsqueeze(1)
        points = self.shift.unsqueeze(0)
        for bit, direction in enumerate(self.sobolstate.unbind(1)):
            points = points ^ (((gray >> bit) & 1) * direction)
        return points

    def _scramble(self) -> None:
        """A random shift, and a random lower triangular matrix over the bits of each dimension."""
        random = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        bits = torch.arange(self.MAXBIT, device="cpu")
        shift = torch.randint(2, (self.dimension, self.MAXBIT), generator=random, device="cpu")
        self.shift = (shift << bits).sum(1)
        shape = (self.dimension, self.MAXBIT, self.MAXBIT)
        below = torch.randint(2, shape, generator=random, device="cpu").tril(-1)
        matrix = below + torch.eye(self.MAXBIT, dtype=torch.int64, device="cpu")
        falling = bits.flip(0)  # the highest bit first
        state = (self.sobolstate.unsqueeze(-1) >> falling) & 1
        mixed = (state @ matrix.transpose(1, 2)) & 1
        self.sobolstate = (mixed << falling).sum(-1)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


def _table(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials, as bits, and the first direction numbers of the dimensions."""
    if dimension <= len(DERIVED[0]):
        return DERIVED
    found = importlib.util.find_spec("scipy")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        # The file, not the module: importing scipy.stats takes a second.
        file = Path(place) / "stats" / "_sobol_direction_numbers.npz"
        if file.exists():
            with np.load(file) as parts:
                return parts["poly"], parts["vinit"]
    raise NotImplementedError(
        f"SobolEngine with dimension={dimension}: more than {len(DERIVED[0])} dimensions need the "
        "direction numbers of Joe and Kuo, which SciPy carries: pip install scipy"
    )


def _directions(dimension: int, bits: int) -> np.ndarray:
    """Direction numbers, (dimension, bits), scaled so that the highest bit is 1/2.

    A polynomial of degree s gives number j from the s before it (the recurrence of Bratley and
    Fox); it runs over all dimensions of one degree at once.
    """
    polynomials, first = (part[:dimension].astype(np.int64) for part in _table(dimension))
    numbers = np.ones((dimension, bits), np.int64)
    degrees = np.array([int(p).bit_length() - 1 for p in polynomials])
    for degree in range(1, int(degrees.max()) + 1):
        rows = np.nonzero(degrees == degree)[0]
        found = np.ones((len(rows), bits), np.int64)
        found[:, :degree] = first[rows, :degree]
        for j in range(degree, bits):
            value = found[:, j - degree].copy()
            for back in range(1, degree + 1):
                there = (polynomials[rows] >> (degree - back)) & 1
                value ^= there * (found[:, j - back] << back)
            found[:, j] = value
        numbers[rows] = found
    return numbers << np.arange(bits - 1, -1, -1)
