"""Event files: their records, checksums and messages, read back by a small reader of their own."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.tensorboard import SummaryWriter
from rushlight.utils.tensorboard.event_file import masked_checksum
from rushlight.utils.tensorboard.pictures import png, to_pixels


def fields(data):
    """A message: (field, value) pairs."""
    file, found = io.BytesIO(data), []

    def varint():
        value = shift = 0
        while True:
            byte = file.read(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while file.tell() < len(data):
        key = varint()
        kind = key & 7
        sizes = {1: ("<d", 8), 5: ("<f", 4)}
        if kind == 0:
            value = varint()
        elif kind == 2:
            value = file.read(varint())
        else:
            value = struct.unpack(sizes[kind][0], file.read(sizes[kind][1]))[0]
        found.append((key >> 3, value))
    return found


def events(folder):
    """The events of the files below a folder."""
    found = []
    for path in sorted(Path(folder).rglob("events.*")):
        data = path.read_bytes()
        while data:
            length, check = struct.unpack("<QI", data[:12])
            assert check == masked_checksum(data[:8])
            body, data = data[12 : 12 + length], data[12 + length :]
            assert struct.unpack("<I", data[:4])[0] == masked_checksum(body)
            data = data[4:]
            found.append(dict(fields(body)))
    return found


def values(folder):
    """Tag -> (step, fields of the value)."""
    return {dict(v)[1].decode(): (event.get(2), dict(v)) for event in events(folder) if 5 in event
            for v in (fields(dict(fields(event[5]))[1]),)}  # fmt: skip


def test_the_checksum_is_crc32c():
    unmasked = (masked_checksum(b"123456789") - 0xA282EAD8) & 0xFFFFFFFF
    assert (unmasked >> 17 | unmasked << 15) & 0xFFFFFFFF == 0xE3069283


def test_numbers_texts_and_runs(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", torch.tensor(0.5), 3)
        writer.add_text("note", "hello", 1)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 4)
        writer.add_hparams({"lr": 0.1, "name": "x", "on": True}, {"acc": 0.25})
    found = values(tmp_path)
    assert events(tmp_path)[0][3] == b"brain.Event:2"
    assert found["loss"][0] == 3 and found["loss"][1][2] == 0.5
    assert b"hello" in found["note/text_summary"][1][8]
    assert found["both"][0] == 4 and found["acc"][1][2] == 0.25
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} >= {"both_a", "both_b"}
    assert b"lr" in found["_hparams_/session_start_info"][1][9]


def test_histogram_counts_every_number(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", torch.arange(10.0) - 3, 0)
    message = dict(fields(values(tmp_path)["h"][1][5]))
    assert (message[1], message[2], message[3], message[4]) == (-3.0, 6.0, 10.0, 15.0)
    counts = np.frombuffer(message[7], "<f8")
    assert counts.sum() == 10 and len(counts) == len(message[6]) // 8
    with pytest.raises(ValueError, match="no element"):
        SummaryWriter(tmp_path).add_histogram("h", torch.zeros(0))


def test_images(tmp_path):
    assert to_pixels(torch.linspace(0, 1, 12).view(3, 2, 2).numpy(), "CHW").shape == (2, 2, 3)
    grid = to_pixels(np.ones((9, 1, 2, 3)), "NCHW")
    assert grid.shape == (4, 24, 3)
    with pytest.raises(ValueError, match="dataformats"):
        to_pixels(np.ones((2, 2)), "CHW")
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    data = png(pixels)
    packed = data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]
    assert zlib.decompress(packed) == b"\0" + pixels[0].tobytes() + b"\0" + pixels[1].tobytes()
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("i", torch.rand(3, 4, 5), 1)
    head = dict(fields(values(tmp_path)["i"][1][4]))
    assert (head[1], head[2], head[3]) == (4, 5, 3)


def test_graph_names_the_layers_and_their_order(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, torch.zeros(1, 3))
    graph = next(event[4] for event in events(tmp_path) if 4 in event)
    nodes = [dict(fields(value)) for field, value in fields(graph) if field == 1]
    assert [n[2].decode() for n in nodes] == ["Input", "Linear", "ReLU", "Linear", "Output"]
    assert nodes[2][3] == nodes[1][1] and nodes[4][3] == nodes[3][1]


def test_what_is_not_supported_says_so(tmp_path):
    with pytest.raises(NotImplementedError, match="add_video"):
        SummaryWriter(tmp_path).add_video("v", torch.zeros(1))


def test_a_purge_begins_a_session_at_its_step(tmp_path):
    SummaryWriter(tmp_path, purge_step=7).close()
    assert [(e.get(2), e[7]) for e in events(tmp_path) if 7 in e] == [(7, b"\x08\x01")]


def test_scalars_in_double_precision(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("x", 0.1, 0, new_style=True, double_precision=True)
    tensor = dict(fields(values(tmp_path)["x"][1][8]))
    assert tensor[1] == 2 and np.frombuffer(tensor[6], "<f8").tolist() == [0.1]
