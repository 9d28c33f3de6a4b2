"""Attention with a score_mod and a mask, tile by tile; its gradients by computing scores again.

In: query, key, value and a `Task` (what the mods are and how the work is cut). Out: output, log of
the sum of exponentials, largest score. The order is s = (q k) scale -> score_mod -> mask ->
softmax -> v. Always true: rows that see no key give 0, lse -inf and no gradient; sums run in the
order of the tiles, so that the same call gives the same bits.

Shape letters: B batch, H heads of queries, N heads of keys, G queries per head of keys (H = N G),
L queries, S keys, E features, V features of values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rushlight as torch
from rushlight.attention.captured import Boundary, Edge, sequence_mark, tensor_of_edge
from rushlight.attention.create import as_four_dims, indices_of
from rushlight.attention.tiles import Tile
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable

MINUS = float("-inf")


@dataclass
class Task:
    """Everything but the tensors.

    keep: (tile, indices) -> bool mask or None; mods: score_mod or None; working: the dtype of
    scores and sums; group: query heads per head of keys; captured: what score_mod captured.
    """

    score_mod: Callable | None
    keep: Callable[[Tile, tuple], Any]
    scale: float
    group: int
    working: Any
    tiles: list[Tile]
    captured: list[Edge]


def find_captured(score_mod: Callable, batch: int, heads: int, working: Any) -> list[Edge]:
    """The edges of captured tensors that need gradients, by a call for one query and one key."""
    with torch.enable_grad():
        score = torch.zeros((batch, heads, 1, 1), dtype=working, requires_grad=True)
        mark = sequence_mark()
        where = [indices_of(0, size, dim) for dim, size in enumerate((batch, heads, 1, 1))]
        result = as_four_dims(score_mod(score, *where), score.shape, "score_mod")
        return list(Boundary(result, mark, score).edges.values())


def attention(query: Any, key: Any, value: Any, task: Task) -> tuple[Any, Any, Any]:
    """(output, lse, largest score), differentiable in the three and in what was captured."""
    captured = [tensor_of_edge(edge) for edge in task.captured]
    return _FlexAttention.apply(query, key, value, task, *captured)


class _FlexAttention(Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, task: Task, *captured: Any) -> Any:
        shape = query.shape[:-1]
        out = torch.zeros((*shape, value.shape[-1]), dtype=query.dtype)
        lse = torch.full(shape, MINUS, dtype=task.working)
        top = torch.full(shape, MINUS, dtype=task.working)
        if _is_whole(task, shape):
            out, lse, top = _tile_forward(query, key, value, task, task.tiles[0])
        else:
            for tile in task.tiles:
                place = _place(tile, task)
                parts = _tile_forward(query, key, value, task, tile)
                for whole, part in zip((out, lse, top), parts, strict=True):
                    whole[place] = part
                del parts, part
                torch.flush()
        ctx.task = task
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.mark_non_differentiable(top)
        return out, lse, top

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Any, d_lse: Any, _: Any) -> tuple:
        query, key, value, out, lse = ctx.saved_tensors
        task = ctx.task
        query, key, value, out = (t.detach() for t in (query, key, value, out))
        lse, d_out, d_lse = lse.detach(), d_out.to(task.working), d_lse.to(task.working)
        delta = (d_out * out.to(task.working)).sum(-1) - d_lse
        sums = _Sums(query, key, value, task)
        for tile in task.tiles:
            sums.add(tile, _tile_backward((query, key, value, lse, d_out, delta), task, tile))
            if len(task.tiles) > 1:
                torch.flush()
        return sums.results()


def _is_whole(task: Task, shape: Any) -> bool:
    """One tile that holds every row."""
    if len(task.tiles) != 1:
        return False
    tile = task.tiles[0]
    sizes = [b - a for a, b in (tile.batch, tile.kv_heads, tile.rows)]
    return [sizes[0], sizes[1] * task.group, sizes[2]] == list(shape)


def _place(tile: Tile, task: Task) -> tuple[slice, slice, slice]:
    """The tile in a tensor of (B, H, L, ...)."""
    batch, (first, last), rows = tile.batch, tile.kv_heads, tile.rows
    return slice(*batch), slice(first * task.group, last * task.group), slice(*rows)


def _indices(tile: Tile, task: Task) -> tuple:
    heads = tuple(h * task.group for h in tile.kv_heads)
    ranges = (tile.batch, heads, tile.rows, tile.keys)
    return tuple(indices_of(*r, dim) for dim, r in enumerate(ranges))


def _folded(x_BHLE: Any, group: int) -> Any:  # noqa: N803
    """(B, N G, L, E) -> (B, N, G L, E): the queries of a group share their keys."""
    batch, heads, rows, size = x_BHLE.shape
    return x_BHLE.reshape(batch, heads // group, group * rows, size)


def _unfolded(x_BNRS: Any, group: int) -> Any:  # noqa: N803
    """The inverse of `_folded`."""
    batch, kv_heads, rows, size = x_BNRS.shape
    return x_BNRS.reshape(batch, kv_heads * group, rows // group, size)


def _operands(query: Any, key: Any, value: Any, task: Task, tile: Tile) -> tuple:
    """Query rows (groups folded), keys and values of the tile in the working dtype."""
    batch, kv_heads, _, keys = tile.slices
    q_BNRE = _folded(query[_place(tile, task)].to(task.working), task.group)
    k_BNSE = key[batch, kv_heads, keys].to(task.working)
    return q_BNRE, k_BNSE, value[batch, kv_heads, keys].to(task.working)


def _scores(q_BNRE: Any, k_BNSE: Any, task: Task) -> Any:  # noqa: N803
    return _unfolded(q_BNRE @ k_BNSE.transpose(-2, -1), task.group) * task.scale


def _modified(scores: Any, where: tuple, task: Task) -> Any:
    if task.score_mod is None:
        return scores
    result = as_four_dims(task.score_mod(scores, *where), scores.shape, "score_mod")
    return result.to(task.working)


def _masked(scores: Any, keep: Any) -> Any:
    return scores if keep is None else torch.where(keep, scores, MINUS)


def _tile_forward(query: Any, key: Any, value: Any, task: Task, tile: Tile) -> tuple:
    q_BNRE, k_BNSE, v_BNSV = _operands(query, key, value, task, tile)
    where = _indices(tile, task)
    scores = _modified(_scores(q_BNRE, k_BNSE, task), where, task)
    scores = _masked(scores, task.keep(tile, where))
    top = scores.amax(-1)
    base = torch.where(top == MINUS, 0.0, top)
    e_BHLS = torch.exp(scores - base.unsqueeze(-1))
    total = e_BHLS.sum(-1)
    out = _unfolded(_folded(e_BHLS, task.group) @ v_BNSV, task.group)
    out = out / torch.where(total == 0, 1.0, total).unsqueeze(-1)
    return out.to(query.dtype), base + torch.log(total), top


def _tile_backward(tensors: tuple, task: Task, tile: Tile) -> tuple:
    """Gradients of the tile's queries, keys, values and of what was captured."""
    query, key, value, lse, d_out, delta = tensors
    place = _place(tile, task)
    q_BNRE, k_BNSE, v_BNSV = _operands(query, key, value, task, tile)
    where = _indices(tile, task)
    keep = task.keep(tile, where)
    raw = _scores(q_BNRE, k_BNSE, task)
    trace = _Trace(raw, where, task)
    base = lse[place]
    base = torch.where(base == MINUS, 0.0, base).unsqueeze(-1)
    p_BHLS = torch.exp(_masked(trace.scores, keep) - base)
    g_BNRV = _folded(d_out[place], task.group)
    dp_BHLS = _unfolded(g_BNRV @ v_BNSV.transpose(-2, -1), task.group)
    ds_BHLS = p_BHLS * (dp_BHLS - delta[place].unsqueeze(-1))
    d_raw, d_captured = trace.backward(ds_BHLS)
    d_raw = _folded(d_raw * task.scale, task.group)
    d_query = _unfolded(d_raw @ k_BNSE, task.group)
    d_key = d_raw.transpose(-2, -1) @ q_BNRE
    d_value = _folded(p_BHLS, task.group).transpose(-2, -1) @ g_BNRV
    return d_query, d_key, d_value, d_captured


class _Trace:
    """One call of score_mod with a tape of its own."""

    def __init__(self, raw: Any, where: tuple, task: Task) -> None:
        self.task = task
        if task.score_mod is None:
            self.scores = raw
            return
        with torch.enable_grad():
            self.raw = raw.detach().requires_grad_()
            mark = sequence_mark()
            self.result = _modified(self.raw, where, task)
        self.leaves = Boundary(self.result, mark, self.raw).cut()
        self.scores = self.result.detach()

    def backward(self, d_scores: Any) -> tuple[Any, list]:
        """Gradients of the raw scores and of task.captured, from that of the changed ones."""
        if self.task.score_mod is None:
            return d_scores, []
        keys = [(id(fn), number) for fn, number in self.task.captured]
        if not self.result.requires_grad:
            return torch.zeros_like(d_scores), [None] * len(keys)
        leaves = list(self.leaves.values())
        found = torch.autograd.grad(self.result, [self.raw, *leaves], d_scores, allow_unused=True)
        by_key = dict(zip(self.leaves, found[1:], strict=True))
        d_raw = torch.zeros_like(d_scores) if found[0] is None else found[0]
        return d_raw, [by_key.get(key) for key in keys]


class _Sums:
    """Gradients added up over the tiles, in their order."""

    def __init__(self, query: Any, key: Any, value: Any, task: Task) -> None:
        self.task, self.likes = task, (query, key, value)
        self.d_query, self.d_key, self.d_value = (
            torch.zeros(t.shape, dtype=task.working) for t in self.likes
        )
        self.d_captured: list[Any] = [None] * len(task.captured)

    def add(self, tile: Tile, found: tuple) -> None:
        d_query, d_key, d_value, d_captured = found
        batch, kv_heads, _, keys = tile.slices
        self.d_query[_place(tile, self.task)] = d_query
        self.d_key[batch, kv_heads, keys] += d_key
        self.d_value[batch, kv_heads, keys] += d_value
        for number, grad in enumerate(d_captured):
            if grad is not None:
                old = self.d_captured[number]
                self.d_captured[number] = grad if old is None else old + grad

    def results(self) -> tuple:
        sums = (self.d_query, self.d_key, self.d_value)
        own = [d.to(like.dtype) for d, like in zip(sums, self.likes, strict=True)]
        return (*own, None, *self.d_captured)
