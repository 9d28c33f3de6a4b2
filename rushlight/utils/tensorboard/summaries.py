"""One value with a tag as the message that TensorBoard reads (Summary.Value)."""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import numpy as np

from rushlight.utils.tensorboard.messages import (
    blob,
    double,
    doubles,
    integer,
    single,
    singles,
    text,
)
from rushlight.utils.tensorboard.pictures import png

STRING, FLOAT, DOUBLE = 7, 1, 2  # numbers of dtypes in TensorProto


def to_array(value: Any) -> np.ndarray:
    """A tensor, an array, a number or a list of them as a numpy array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    if isinstance(value, (list, tuple)):
        return np.array([to_array(part) for part in value])
    return np.asarray(value)


def number(value: Any, what: str) -> float:
    """A number or a tensor of one element as a float."""
    if isinstance(value, str):
        raise NotImplementedError(f"{what}: got a text, a blob's name; allowed are numbers")
    array = to_array(value)
    if array.size != 1:
        raise ValueError(f"{what}: got {array.size} elements, allowed is one")
    return float(array.reshape(()))


def _value(tag: str, content: bytes, plugin: str = "", data: bytes = b"") -> bytes:
    metadata = blob(9, blob(1, text(1, plugin) + blob(2, data))) if plugin else b""
    return blob(1, text(1, tag) + metadata + content)


def _tensor(dtype: int, shape: tuple[int, ...], values: bytes) -> bytes:
    sizes = b"".join(blob(2, integer(1, size)) for size in shape)
    return blob(8, integer(1, dtype) + blob(2, sizes) + values)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> bytes:
    found = number(value, "scalar_value")
    if new_style:
        kind, values = (
            (DOUBLE, doubles(6, [found])) if double_precision else (FLOAT, singles(5, [found]))
        )
        return _value(tag, _tensor(kind, (), values), "scalars", integer(1, 0))
    return _value(tag, single(2, found))


def numbers(tag: str, values: Any) -> bytes:
    """A tensor of numbers, as they are."""
    array = to_array(values)
    return _value(tag, _tensor(FLOAT, array.shape, singles(5, array.reshape(-1))), "tensors")


def words(tag: str, content: str) -> bytes:
    """A text, shown as Markdown."""
    tensor = _tensor(STRING, (1,), text(8, content))
    return _value(f"{tag}/text_summary", tensor, "text")


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> bytes:
    """bins: edges, or a way to choose them that numpy.histogram knows."""
    flat = to_array(values).reshape(-1).astype(np.float64)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        joined = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), joined))
        edges = np.append(edges[:-1][::joined], edges[-1])
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, len(counts))
    counts = counts[first:last]
    limits = edges[first : last + 1]
    # One empty bucket in front says where the first one begins.
    return histogram_raw(tag, flat.min(), flat.max(), flat.size, flat.sum(), (flat**2).sum(),
                         limits, [0, *counts])  # fmt: skip


def histogram_raw(
    tag: str, low: float, high: float, num: int, total: float, squares: float, limits: Any,
    counts: Any,
) -> bytes:  # fmt: skip
    fields = ((1, low), (2, high), (3, num), (4, total), (5, squares))
    head = b"".join(double(field, float(value)) for field, value in fields)
    return _value(tag, blob(5, head + doubles(6, limits) + doubles(7, counts)))


def image(tag: str, pixels: np.ndarray) -> bytes:
    """pixels: bytes (height, width, channels)."""
    height, width, channels = pixels.shape
    head = integer(1, height) + integer(2, width) + integer(3, channels)
    return _value(tag, blob(4, head + blob(4, png(pixels))))


def audio(tag: str, sound: Any, sample_rate: int) -> bytes:
    """sound: numbers from -1 to 1, (L) or (1, L)."""
    samples = np.clip(to_array(sound).squeeze(), -1, 1)
    if samples.ndim != 1:
        raise ValueError(f"snd_tensor: got shape {samples.shape}, allowed are (L) and (1, L)")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    head = single(1, sample_rate) + integer(2, 1) + integer(3, samples.size)
    return _value(tag, blob(6, head + blob(4, file.getvalue()) + text(5, "audio/wav")))


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> bytes:
    """Precision and recall of predictions from 0 to 1, at thresholds of equal distance."""
    truth, guesses = to_array(labels).reshape(-1) > 0, to_array(predictions).reshape(-1)
    weight = np.ones(truth.shape) if weights is None else to_array(weights).reshape(-1)
    count = min(num_thresholds, 127)
    bucket = np.clip(np.floor(guesses * (count - 1)).astype(int), 0, count - 1)
    hits, misses = (
        np.bincount(bucket, weight * which, count)[::-1].cumsum()[::-1] for which in (truth, ~truth)
    )
    rest = (misses[0] - misses, hits[0] - hits)
    precision = hits / np.maximum(1e-7, hits + misses)
    recall = hits / np.maximum(1e-7, hits[0])
    rows = np.stack([hits, misses, *rest, precision, recall])
    tensor = _tensor(FLOAT, rows.shape, singles(5, rows.reshape(-1)))
    return _value(tag, tensor, "pr_curves", integer(1, 0) + integer(2, count))


def _plain(value: Any) -> bytes:
    """A google.protobuf.Value."""
    if isinstance(value, bool):
        return integer(4, value)
    if isinstance(value, (int, float)):
        return double(2, float(value))
    return text(3, value if isinstance(value, str) else json.dumps(value, default=str))


def hparams(options: dict[str, Any], metrics: dict[str, Any]) -> list[bytes]:
    """The three values that describe a run: the experiment, its start and its end."""
    kinds = {bool: 2, int: 3, float: 3}
    infos = b"".join(
        blob(4, text(1, name) + integer(4, kinds.get(type(value), 1)))
        for name, value in options.items()
    )
    infos += b"".join(blob(5, blob(1, text(2, name))) for name in metrics)
    start = b"".join(
        blob(1, text(1, name) + blob(2, _plain(value))) for name, value in options.items()
    )
    parts = (("experiment", 2, infos), ("session_start_info", 3, start),
             ("session_end_info", 4, integer(1, 1)))  # fmt: skip
    return [_value(f"_hparams_/{name}", b"", "hparams", integer(1, 0) + blob(field, content))
            for name, field, content in parts]  # fmt: skip
