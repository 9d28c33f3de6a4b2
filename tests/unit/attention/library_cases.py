"""Random attentions with every mask and score_mod of the library, and their float64 answers.

The answers are made of full scores by numpy. `kept`, the dense mask, is the library's own: each
mask is tested against its picture elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.attention import create_mask
from rushlight.attention.gallery import mask_by_name
from tests.unit.attention.dense import Dense, dense_attention

PARAMETERS = {
    "causal": lambda rng: {},
    "sliding_window": lambda rng: {"window": int(rng.integers(1, 80))},
    "prefix_lm": lambda rng: {"prefix": int(rng.integers(0, 60))},
    "document": lambda rng: {"lengths": [int(n) for n in rng.integers(1, 90, 9)]},
    "dilated": lambda rng: {"step": int(rng.integers(1, 7))},
    "block_diagonal": lambda rng: {"size": int(rng.integers(1, 90))},
    "tree": lambda rng: {"parents": [int(rng.integers(0, n)) for n in range(1, 40)]},
    "natten_2d": lambda rng: {"width": int(rng.integers(8, 17)), "kernel": 5},
}
MODS = ("none", "alibi", "softcap", "relative_bias")
CAP = 2.0


@dataclass
class LibraryCase:
    """arrays: q, k, v and the gradient g of the output, numbers of the case's dtype in float64.

    captured: what the score_mod reads, if anything.
    """

    mask_mod: Any
    mod: str
    arrays: dict[str, np.ndarray]
    kept: np.ndarray
    captured: np.ndarray | None

    @property
    def lengths(self) -> tuple[int, int]:
        return self.arrays["q"].shape[2], self.arrays["k"].shape[2]

    def score_mod(self, torch: Any, captured: Any) -> Any:
        """For either framework."""
        keys = self.lengths[1]
        return {
            "none": None,
            "alibi": lambda s, b, h, i, j: s + captured[h] * (j - i),
            "softcap": lambda s, b, h, i, j: CAP * torch.tanh(s / CAP),
            "relative_bias": lambda s, b, h, i, j: s + captured[h, i - j + keys - 1],
        }[self.mod]

    def answer(self, working: Any = np.float64) -> dict[str, np.ndarray]:
        """out, lse and the gradients d_q, d_k, d_v, d_captured, computed in this numpy dtype."""
        a = {name: x.astype(working) for name, x in self.arrays.items()}
        found = self._dense(a)
        result = {
            "out": found.out, "lse": found.lse, "d_q": found.d_query, "d_k": found.d_key,
            "d_v": found.d_value,
        }  # fmt: skip
        if self.captured is not None:
            result["d_captured"] = self._by_captured(found.d_scores, self._distance())
        return result

    def terms(self) -> dict[str, np.ndarray]:
        """Sums of the magnitudes of what is added up for the gradients d_q, d_k, d_captured."""
        a = {name: abs(x) for name, x in self.arrays.items()}
        by_scores, group = (
            self._dense(self.arrays).d_scores_terms,
            a["q"].shape[1] // a["k"].shape[1],
        )
        scale = a["q"].shape[3] ** -0.5
        by_key = np.swapaxes(by_scores, -1, -2) @ a["q"] * scale
        result = {
            "d_q": by_scores @ np.repeat(a["k"], group, 1) * scale,
            "d_k": by_key.reshape(by_key.shape[0], -1, group, *by_key.shape[2:]).sum(2),
        }
        if self.captured is not None:
            result["d_captured"] = self._by_captured(by_scores, abs(self._distance()))
        return result

    def _distance(self) -> np.ndarray:
        rows, keys = self.lengths
        return np.arange(keys) - np.arange(rows)[:, None]

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Head and index of the bias that each pair reads."""
        heads = np.arange(self.arrays["q"].shape[1])[:, None, None]
        return heads, self.lengths[1] - 1 - self._distance()

    def _dense(self, a: dict[str, np.ndarray]) -> Dense:
        bias: Any = 0.0
        if self.mod == "alibi":
            bias = self.captured[:, None, None] * self._distance()
        elif self.captured is not None:
            bias = self.captured[self._places()]
        width = a["q"].dtype.type(a["q"].shape[3])
        return dense_attention(
            a["q"], a["k"], a["v"], bias, self.kept, a["g"], np.zeros(a["q"].shape[:3]),
            width ** -0.5, CAP if self.mod == "softcap" else None,
        )  # fmt: skip

    def _by_captured(self, by_scores: np.ndarray, distance: np.ndarray) -> np.ndarray:
        if self.mod == "alibi":
            return (by_scores * distance).sum((0, 2, 3))
        result = np.zeros(self.captured.shape, by_scores.dtype)
        np.add.at(result, self._places(), by_scores.sum(0))
        return result


def library_case(
    name: str, mod: str, rng: np.random.Generator, dtype: Any, longest: int = 300
) -> LibraryCase:  # fmt: skip
    """dtype: numpy's; numbers are rounded to it."""
    batch, kv_heads, group = (int(n) for n in rng.integers(1, [3, 3, 4]))
    rows, keys = (int(n) for n in rng.integers(0, longest + 1, 2))
    width, v_width = (int(n) for n in rng.integers(1, 40, 2))
    heads = kv_heads * group
    shapes = {
        "q": (batch, heads, rows, width), "k": (batch, kv_heads, keys, width),
        "v": (batch, kv_heads, keys, v_width), "g": (batch, heads, rows, v_width),
    }  # fmt: skip
    arrays = {n: rng.standard_normal(s).astype(dtype).astype(float) for n, s in shapes.items()}
    sizes = {"alibi": (heads,), "relative_bias": (heads, rows + keys + 1)}
    captured = None
    if mod in sizes:
        scale = 0.02 if mod == "alibi" else 1.0
        captured = (rng.standard_normal(sizes[mod]) * scale).astype(np.float32).astype(float)
    mask_mod = mask_by_name(name, max(1, rows, keys), **PARAMETERS[name](rng))
    kept = create_mask(mask_mod, None, None, rows, keys).numpy()
    return LibraryCase(mask_mod, mod, arrays, kept, captured)
