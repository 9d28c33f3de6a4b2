"""GGUF: every kind of block against loops over its bits, metadata, and damaged tables."""

import math
import struct

import numpy as np
import pytest

import rushlight as torch
from rushlight.serialization import CorruptFileError, UnsupportedObjectError, gguf


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def file_of(folder, tensors=(), metadata=b"", count=0, version=3, magic=b"GGUF"):
    """A file with these (name, sizes as in the file, kind, offset) and their data."""
    head = magic + struct.pack("<IQQ", version, len(tensors), count) + metadata
    data = b""
    for name, sizes, kind, offset, values in tensors:
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
        data = data.ljust(offset, b"\0") + values
    path = folder / "x.gguf"
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


def f16(block, at):
    return float(np.frombuffer(bytes(block[at : at + 2]), "<f2")[0])


def signed(byte):
    return byte - 256 if byte > 127 else byte


def nibble(qs, i):
    """Element i of 32 in 16 bytes."""
    return qs[i] & 15 if i < 16 else qs[i - 16] >> 4


def bit(block, at, i):
    return int.from_bytes(bytes(block[at : at + 4]), "little") >> i & 1


def k_scale(s, j):
    """Scale and minimum of part j in the 12 bytes of Q4_K and Q5_K."""
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return (s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4


def k_value(block, i, q):
    scale, minimum = k_scale(block[4:16], i // 32)
    d = np.float32(f16(block, 0)) * np.float32(scale)
    return d * np.float32(q) - np.float32(f16(block, 2)) * np.float32(minimum)


def k_nibble(qs, i):
    byte = qs[i // 64 * 32 + i % 32]
    return byte >> 4 if i % 64 >= 32 else byte & 15


def q6_value(block, i):
    half, part, at = i // 128, i % 128 // 32, i % 32
    low = block[half * 64 + (part % 2) * 32 + at]
    low = low >> 4 if part >= 2 else low & 15
    high = block[128 + half * 32 + at] >> (2 * part) & 3
    scale = np.float32(f16(block, 208)) * np.float32(signed(block[192 + i // 16]))
    return scale * np.float32((low | high << 4) - 32)


# kind: element i of a block of bytes
REFERENCES = {
    2: lambda b, i: f16(b, 0) * (nibble(b[2:], i) - 8),
    3: lambda b, i: f16(b, 0) * nibble(b[4:], i) + f16(b, 2),
    6: lambda b, i: f16(b, 0) * (nibble(b[6:], i) + 16 * bit(b, 2, i) - 16),
    7: lambda b, i: f16(b, 0) * (nibble(b[8:], i) + 16 * bit(b, 4, i)) + f16(b, 2),
    8: lambda b, i: f16(b, 0) * signed(b[2 + i]),
    12: lambda b, i: k_value(b, i, k_nibble(b[16:], i)),
    13: lambda b, i: k_value(b, i, k_nibble(b[48:], i) + 16 * (b[16 + i % 32] >> (i // 32) & 1)),
    14: q6_value,
}
SCALES_AT = {2: (0,), 3: (0, 2), 6: (0,), 7: (0, 2), 8: (0,), 12: (0, 2), 13: (0, 2), 14: (208,)}


@pytest.mark.parametrize("number", REFERENCES, ids=lambda n: gguf.KINDS[n].name)
def test_packed_blocks_are_what_their_bits_say(tmp_path, number):
    kind, rng = gguf.KINDS[number], np.random.default_rng(number)
    blocks = rng.integers(0, 256, (6, kind.block_bytes)).astype(np.uint8)
    for at in SCALES_AT[number]:
        blocks[:, at : at + 2] = rng.standard_normal((6, 1)).astype("<f2").view(np.uint8)
    sizes = (2 * kind.block_numel, 3)
    path = file_of(tmp_path, [("w", sizes, number, 0, blocks.tobytes())])
    tensor = gguf.GGUFFile(path).tensors["w"]
    assert tensor.kind is kind and tensor.shape == sizes[::-1]
    assert tensor.blocks.tolist() == blocks.tolist()
    got = tensor.dequantize()
    assert got.dtype == torch.float32 and tuple(got.shape) == sizes[::-1]
    read = REFERENCES[number]
    expected = [read([int(x) for x in b], i) for b in blocks for i in range(kind.block_numel)]
    np.testing.assert_allclose(got.reshape(-1).tolist(), expected, 2e-6, 1e-6)
    assert tensor.dequantize(torch.float16).dtype == torch.float16


@pytest.mark.parametrize("number", [0, 1, 24, 25, 26, 27, 28, 30])
def test_plain_numbers_are_what_they_were(tmp_path, number):
    dtype = getattr(torch, gguf.KINDS[number].dtype_name)
    values = torch.tensor([[1, -2, 3], [4, 5, -6]]).to(dtype)
    raw = values.view(torch.int16) if dtype is torch.bfloat16 else values
    got = gguf.load(file_of(tmp_path, [("w", (3, 2), number, 0, raw.numpy().tobytes())]))["w"]
    assert got.dtype is dtype and got.tolist() == values.tolist()
    got[0, 0] = 9  # the mapped file stays as it is
    assert gguf.GGUFFile(tmp_path / "x.gguf")["w"][0, 0].item() == 1


def test_metadata_of_every_type(tmp_path):
    parts = [
        (0, "<B", 200), (1, "<b", -3), (2, "<H", 60000), (3, "<h", -5), (4, "<I", 2**32 - 1),
        (5, "<i", -7), (6, "<f", 0.5), (7, "<?", True), (10, "<Q", 2**64 - 1), (11, "<q", -(2**63)),
        (12, "<d", 0.1),
    ]  # fmt: skip
    body = b"".join(
        text(f"k{kind}") + struct.pack("<I", kind) + struct.pack(layout, value)
        for kind, layout, value in parts
    )
    body += text("text") + struct.pack("<I", 8) + text("h\u00e9llo")
    body += text("list") + struct.pack("<IIQ", 9, 4, 2) + struct.pack("<II", 1, 2)
    body += text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("")
    body += text("flags") + struct.pack("<IIQ", 9, 7, 2) + b"\1\0"
    body += text("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 0, 2) + b"\1\2"
    found = gguf.GGUFFile(file_of(tmp_path, metadata=body, count=len(parts) + 5)).metadata
    assert found == {
        **{f"k{kind}": value for kind, _, value in parts},
        "text": "h\u00e9llo",
        "list": [1, 2],
        "words": ["a", ""],
        "flags": [True, False],
        "nested": [[1, 2]],
    }


def bad_text_count(count):
    return text("a") + struct.pack("<IIQ", 9, 8, count)


DEEP = text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 1000
BAD = {
    "starts with": {"magic": b"GGXF"},
    "claims 5 metadata": {"count": 5},
    f"claims {2**60} values": {"metadata": bad_text_count(2**60) + b"x" * 99, "count": 1},
    "type 99": {"metadata": text("a") + struct.pack("<I", 99) + b"x" * 99, "count": 1},
    "type 9 at depth": {"metadata": DEEP, "count": 1},
    "'a' twice": {"metadata": (text("a") + b"\0\0\0\0\1") * 2, "count": 2},
    "general.alignment is 0": {
        "metadata": text("general.alignment") + struct.pack("<II", 4, 0), "count": 1,
    },
    "9 dimensions": {"tensors": [("w", (1,) * 9, 0, 0, b"1234")]},
    "it is cut": {"tensors": [("w", (2**40, 2**40), 0, 0, b"1234")]},
    "overlaps tensor": {"tensors": [("w", (2,), 0, 0, b"12345678"), ("v", (1,), 0, 4, b"")]},
    "rows of 31 elements": {"tensors": [("w", (31,), 8, 0, b"x" * 34)]},
    "one name": {"tensors": [("w", (1,), 24, 0, b"x"), ("w", (1,), 24, 1, b"x")]},
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_bad_table_is_refused(tmp_path, message):
    with pytest.raises(CorruptFileError, match=message):
        gguf.GGUFFile(file_of(tmp_path, **BAD[message]))


def test_what_is_not_unpacked_is_named(tmp_path):
    path = file_of(tmp_path, [("w", (256,), 10, 0, b"x" * 84), ("v", (5,), 77, 84, b"")])
    tensors = gguf.GGUFFile(path).tensors
    assert tuple(tensors["w"].blocks.shape) == (1, 84)
    with pytest.raises(UnsupportedObjectError, match="'w' has blocks of kind Q2_K"):
        tensors["w"].dequantize()
    with pytest.raises(UnsupportedObjectError, match="kind 77"):
        _ = tensors["v"].blocks
    with pytest.raises(UnsupportedObjectError, match="version 1"):
        gguf.GGUFFile(file_of(tmp_path, version=1))
    with pytest.raises(UnsupportedObjectError, match="serialization.gguf"):
        torch.load(path)


def test_dequantized_values_take_part_in_programs(tmp_path):
    block = np.float16(0.5).tobytes() + bytes(range(32))
    weight = gguf.load(file_of(tmp_path, [("w", (32, 1), 8, 0, block)]))["w"]
    assert (weight @ torch.ones(32)).tolist() == [math.fsum(i / 2 for i in range(32))]
