"""ONNX's recurrent layers, attention with states, spectra and training steps.

As elementwise.py: tensors and attributes in, tensors out. Where PyTorch has the layer (rnn_tanh,
lstm, flex_attention, stft) it is called; what PyTorch lacks (peepholes, a GRU that resets before
its product, linear attention) goes step by step through time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elementwise import DTYPES

import rushlight as torch
from rushlight.nn.attention.flex_attention import flex_attention

F = torch.nn.functional
ONE_LAYER = (True, 1, 0.0, False, False, False)  # biases, layers, dropout, train, two ways, batch


def recurrent(line: Callable, states: int) -> Callable:
    """A layer from `line`, which runs one direction over time (time first)."""

    def run(
        x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any,
        direction: str = "forward", hidden_size: int = 0, layout: int = 0, **options: Any,
    ) -> Any:  # fmt: skip
        x = x.transpose(0, 1) if layout else x
        if lengths is not None and (lengths != x.shape[0]).any():
            raise NotImplementedError("sequences of several lengths")
        ways, size = w.shape[0], r.shape[-1]
        b = torch.zeros(ways, 2 * w.shape[1]) if b is None else b
        begin = [
            torch.zeros(ways, x.shape[1], size) if i >= len(rest) or rest[i] is None
            else rest[i].transpose(0, 1) if layout else rest[i]
            for i in range(states)
        ]  # fmt: skip
        parts, ends = [], []
        for way in range(ways):
            back = direction == "reverse" or way == 1
            weights = [w[way], r[way], *b[way].chunk(2)]
            extra = [value[way] for value in rest[states:]]
            made = line(
                x.flip(0) if back else x, weights, [s[way] for s in begin], *extra, **options
            )
            parts.append(made[0].flip(0) if back else made[0])
            ends.append(made[1:])
        y, last = torch.stack(parts, 1), [torch.stack(end) for end in zip(*ends, strict=True)]
        if layout:
            y, last = y.permute(2, 0, 1, 3), [end.transpose(0, 1) for end in last]
        return (y, *last)

    return run


def rnn_line(x: Any, weights: list, begin: list) -> Any:
    y, end = torch.rnn_tanh(x, begin[0].unsqueeze(0), weights, *ONE_LAYER)
    return y, end[0]


def reordered(value: Any, order: tuple[int, ...]) -> Any:
    gates = value.chunk(len(order))
    return torch.cat([gates[i] for i in order])


def lstm_line(x: Any, weights: list, begin: list, peepholes: Any = None) -> Any:
    if peepholes is not None:
        return lstm_with_peepholes(x, weights, begin, peepholes)
    own = [reordered(value, (0, 2, 3, 1)) for value in weights]  # i o f c -> i f c o
    y, h, c = torch.lstm(x, [s.unsqueeze(0) for s in begin], own, *ONE_LAYER)
    return y, h[0], c[0]


def lstm_with_peepholes(x: Any, weights: list, begin: list, peepholes: Any) -> Any:
    w, r, w_bias, r_bias = weights
    (h, c), (p_i, p_o, p_f), found = begin, peepholes.chunk(3), []
    for step in x:
        i, o, f, g = (F.linear(step, w, w_bias) + F.linear(h, r, r_bias)).chunk(4, -1)
        c = (f + p_f * c).sigmoid() * c + (i + p_i * c).sigmoid() * g.tanh()
        h = (o + p_o * c).sigmoid() * c.tanh()
        found.append(h)
    return torch.stack(found), h, c


def gru_line(x: Any, weights: list, begin: list, linear_before_reset: int = 0) -> Any:
    if linear_before_reset:
        own = [reordered(value, (1, 0, 2)) for value in weights]  # z r h -> r z h
        y, end = torch.gru(x, begin[0].unsqueeze(0), own, *ONE_LAYER)
        return y, end[0]
    w, r, w_bias, r_bias = weights
    r_gates, r_new = r.split([2 * r.shape[1], r.shape[1]])
    b_gates, b_new = r_bias.split([2 * r.shape[1], r.shape[1]])
    h, found = begin[0], []
    for step in x:
        z, reset, new = F.linear(step, w, w_bias).chunk(3, -1)
        z_own, reset_own = F.linear(h, r_gates, b_gates).chunk(2, -1)
        z, reset = (z + z_own).sigmoid(), (reset + reset_own).sigmoid()
        new = (new + F.linear(reset * h, r_new, b_new)).tanh()
        h = (1 - z) * new + z * h
        found.append(h)
    return torch.stack(found), h


def rotary(
    x: Any, cos: Any, sin: Any, places: Any = None, interleaved: int = 0,
    rotary_embedding_dim: int = 0, num_heads: int = 0,
) -> Any:  # fmt: skip
    heads_first = x.dim() == 4
    heads = x.transpose(1, 2) if heads_first else x.reshape(*x.shape[:2], num_heads, -1)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, kept = heads[..., :size], heads[..., size:]
    if places is not None:
        cos, sin = cos[places], sin[places]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = (cos * a - sin * b, sin * a + cos * b)
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    found = torch.cat([turned, kept], -1)
    return found.transpose(1, 2) if heads_first else found.reshape(x.shape)


def heads_of(x: Any, count: int) -> Any:
    """(B, T, H * D) as (B, H, T, D) in float32."""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2).to(torch.float32)


def linear_attention(
    q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None,
    q_num_heads: int = 1, kv_num_heads: int = 1, scale: float = 0.0,
    update_rule: str = "gated_delta", chunk_size: int = 0,
) -> Any:  # fmt: skip
    queries, keys, values = (
        heads_of(q, q_num_heads),
        heads_of(k, kv_num_heads),
        heads_of(v, kv_num_heads),
    )
    decays = None if decay is None else heads_of(decay, kv_num_heads)
    betas = None if beta is None else heads_of(beta, beta.shape[-1])
    state = torch.zeros(*keys.shape[:2], keys.shape[-1], values.shape[-1])
    state = state if past is None else past.to(torch.float32)
    found = []
    for i in range(q.shape[1]):
        key, value = keys[:, :, i], values[:, :, i]
        if decays is not None:
            state = state * decays[:, :, i].exp().unsqueeze(-1)
        if betas is not None:
            value = betas[:, :, i] * (value - torch.einsum("bhdm,bhd->bhm", state, key))
        state = state + key.unsqueeze(-1) * value.unsqueeze(-2)
        read = state.repeat_interleave(q_num_heads // kv_num_heads, 1)
        found.append(torch.einsum("bhd,bhdm->bhm", queries[:, :, i], read))
    made = torch.stack(found, 1).flatten(2) * (scale or queries.shape[-1] ** -0.5)
    return made.to(q.dtype), state.to(q.dtype if past is None else past.dtype)


def causal_conv(
    x: Any, w: Any, bias: Any = None, past: Any = None, activation: str = "none"
) -> Any:
    few = w.shape[-1] - 1
    past = torch.zeros(*x.shape[:2], few, dtype=x.dtype) if past is None else past
    line = torch.cat([past, x], -1)
    made = F.conv1d(line, w, bias, groups=x.shape[1])
    made = made if activation == "none" else F.silu(made.to(torch.float32)).to(x.dtype)
    return made, line.narrow(-1, line.shape[-1] - few, few)


def flex(q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
    return flex_attention(q, k, v, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def tensor_scatter(
    cache: Any, update: Any, start: Any = None, mode: str = "linear", axis: int = -2
) -> Any:
    axis %= cache.dim()
    start = torch.zeros(cache.shape[0], dtype=torch.int64) if start is None else start
    lines = torch.arange(update.shape[axis]) + start.unsqueeze(1)
    lines = lines % cache.shape[axis] if mode == "circular" else lines
    shape = [n if i in (0, axis) else 1 for i, n in enumerate(update.shape)]
    return cache.scatter(axis, lines.reshape(shape).expand(update.shape), update)


def stft(x: Any, step: Any, window: Any = None, length: Any = None, onesided: int = 1) -> Any:
    size = int(length.item()) if length is not None else window.shape[0]
    window = torch.ones(size) if window is None else window
    made = torch.stft(
        x.squeeze(-1), size, int(step.item()), window=window, center=False,
        onesided=bool(onesided), return_complex=True,
    )  # fmt: skip
    return torch.view_as_real(made.transpose(1, 2))


def mel_weights(
    bins: Any, length: Any, rate: Any, low: Any, high: Any, output_datatype: int = 1
) -> Any:
    count, size = int(bins.item()), int(length.item())
    low, high = (2595 * (v.to(torch.float64) / 700 + 1).log10() for v in (low, high))
    mels = torch.arange(count + 2, dtype=torch.float64) * ((high - low) / (count + 2)) + low
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = torch.floor_divide((size + 1) * hertz, rate)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    place = torch.arange(size // 2 + 1, dtype=torch.float64).unsqueeze(1)
    up = torch.where(center > left, (place - left) / (center - left).clamp(min=1), 1.0)
    found = torch.where((place >= left) & (place <= center), up, 0.0)
    down = (right - place) / (right - center).clamp(min=1)
    falls = (place >= center) & (place < right)
    return torch.where(falls, down, found).to(DTYPES[output_datatype])


def max_unpool(
    x: Any, index: Any, shape: Any = None, kernel_shape: Any = None, strides: Any = None,
    pads: Any = None,
) -> Any:  # fmt: skip
    if len(kernel_shape) != 2 or pads and any(pads):
        raise NotImplementedError("MaxUnpool: two dimensions without padding")
    made = F.max_unpool2d(x, index, kernel_shape, strides)
    if shape is None:
        return made
    more = [want - have for want, have in zip(shape.tolist(), made.shape, strict=True)]
    return F.pad(made, (0, more[3], 0, more[2]))


def training_step(update: Callable, states: int) -> Callable:
    """An optimizer's step: the rate, the number of steps done, then all tensors, all gradients and
    all states of each kind."""

    def run(rate: Any, steps: Any, *values: Any, norm_coefficient: float = 0.0, **options: Any):
        count = len(values) // (2 + states)
        rows = [values[i * count : (i + 1) * count] for i in range(2 + states)]
        found = [
            update(rate, steps, x, norm_coefficient * x + g, *own, **options)
            for x, g, *own in zip(*rows, strict=True)
        ]
        return tuple(v for column in zip(*found, strict=True) for v in column)

    return run


def adagrad(
    rate: Any, steps: Any, x: Any, g: Any, squares: Any, decay_factor: float = 0.0,
    epsilon: float = 0.0,
) -> Any:  # fmt: skip
    squares = squares + g * g
    return x - rate / (1 + steps * decay_factor) * g / (squares.sqrt() + epsilon), squares


def adam(
    rate: Any, steps: Any, x: Any, g: Any, mean: Any, square: Any, alpha: float = 0.9,
    beta: float = 0.999, epsilon: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    mean, square = alpha * mean + (1 - alpha) * g, beta * square + (1 - beta) * g * g
    if steps.item():
        rate = rate * (1 - beta**steps).sqrt() / (1 - alpha**steps)
    return (1 - norm_coefficient_post) * (x - rate * mean / (square.sqrt() + epsilon)), mean, square


def momentum(
    rate: Any, steps: Any, x: Any, g: Any, velocity: Any, alpha: float, beta: float, mode: str
) -> Any:
    velocity = alpha * velocity + (beta if steps.item() else 1.0) * g
    return x - rate * (velocity if mode == "standard" else g + alpha * velocity), velocity


TABLE: dict[str, Callable] = {
    "RNN": recurrent(rnn_line, 1), "LSTM": recurrent(lstm_line, 2), "GRU": recurrent(gru_line, 1),
    "RotaryEmbedding": rotary, "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv, "FlexAttention": flex, "TensorScatter": tensor_scatter,
    "SwiGLU": lambda a, b, alpha=1.0: a * (alpha * a).sigmoid() * b, "STFT": stft,
    "MelWeightMatrix": mel_weights, "MaxUnpool": max_unpool,
    "Upsample": lambda x, scales, mode="nearest": F.interpolate(
        x, scale_factor=tuple(scales.tolist()[2:]), mode=mode
    ),
    "BitCast": lambda x, to: x.view(DTYPES[to]),
    "ArrayFeatureExtractor": lambda x, index: x.index_select(-1, index),
    "Binarizer": lambda x, threshold=0.0: (x > threshold).to(x.dtype),
    "Adagrad": training_step(adagrad, 1), "Adam": training_step(adam, 2),
    "Momentum": training_step(momentum, 1),
}  # fmt: skip
