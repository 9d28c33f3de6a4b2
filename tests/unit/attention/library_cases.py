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
from tests.unit.attention.dense import dense_attention

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

    def answer(self) -> dict[str, np.ndarray]:
        """out, lse and the gradients d_q, d_k, d_v, d_captured."""
        (rows, keys), a, heads = self.lengths, self.arrays, self.arrays["q"].shape[1]
        distance = np.arange(keys) - np.arange(rows)[:, None]
        head, place = np.arange(heads)[:, None, None], keys - 1 - distance
        bias: Any = 0.0
        if self.captured is not None:
            slopes = self.captured[:, None, None] if self.mod == "alibi" else None
            bias = self.captured[head, place] if slopes is None else slopes * distance
        found = dense_attention(
            a["q"], a["k"], a["v"], bias, self.kept, a["g"], np.zeros(a["q"].shape[:3]),
            a["q"].shape[3] ** -0.5, CAP if self.mod == "softcap" else None,
        )  # fmt: skip
        result = {
            "out": found.out, "lse": found.lse, "d_q": found.d_query, "d_k": found.d_key,
            "d_v": found.d_value,
        }  # fmt: skip
        if self.mod == "alibi":
            result["d_captured"] = (found.d_scores * distance).sum((0, 2, 3))
        elif self.captured is not None:
            result["d_captured"] = np.zeros(self.captured.shape)
            np.add.at(result["d_captured"], (head, place), found.d_scores.sum(0))
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
