"""Damaged and hand-made files: all is checked before a tensor is handed out."""

import io
import json
import random

import pytest

import rushlight as torch
import rushlight.safetensors as package
from rushlight.serialization import CorruptFileError, UnsupportedObjectError, safetensors
from rushlight.serialization.dtype_names import name_of_dtype
from rushlight.serialization.header import MAX_HEADER_BYTES
from rushlight.serialization.tree_file import write_tree


def file_of(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(len(raw).to_bytes(8, "little") + raw + data)


def entry(dtype="U8", shape=(2,), offsets=(0, 2), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def saved():
    file = io.BytesIO()
    write_tree({"weight": torch.arange(40.0), "n": [1, float("inf")], "b": torch.ones(3)}, file)
    return file.getvalue()


def test_plain_file_loads():
    assert torch.load(file_of({"a": entry()}, b"\x01\x02"))["a"].tolist() == [1, 2]
    assert torch.load(file_of({"a": entry("F32", (), (0, 4))}, b"\0\0\x80\x3f"))["a"].item() == 1
    assert torch.load(file_of({})) == {}
    assert torch.load(file_of({"__metadata__": {"x": "y"}})) == {}


BAD = {
    "too few": io.BytesIO(b"123"),
    "header says": io.BytesIO(b"\xff" * 8),
    "100000000 are allowed": io.BytesIO((MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{" * 99),
    "not start with": file_of(b" {}"),
    "not valid JSON": file_of(b"{"),
    "JSON: Extra": file_of(b"{}x"),
    "UTF-8|utf-8": file_of(b'{"\xff":1}'),
    "'a' twice": file_of(b'{"a":1,"a":1}'),
    "contains NaN": file_of(b'{"a":NaN}'),
    "map from text to text": file_of({"__metadata__": {"a": 1}}),
    "must be a map": file_of({"__metadata__": 3}),
    "'a' must have exactly": file_of({"a": 3}),
    "'b' must have exactly": file_of({"b": entry(extra=1)}, b"12"),
    "unknown dtype 'F4'": file_of({"a": entry("F4")}, b"12"),
    "unknown dtype 3": file_of({"a": entry(3)}, b"12"),
    "shape \\[-1\\]": file_of({"a": entry(shape=(-1,))}, b"12"),
    "shape \\[True\\]": file_of({"a": entry(shape=(True,))}, b"12"),
    "shape \\[1.0\\]": file_of({"a": entry(shape=(1.0,))}, b"12"),
    "offsets \\[0\\]": file_of({"a": entry(offsets=(0,))}, b"12"),
    "0 to 3, outside": file_of({"a": entry(shape=(3,), offsets=(0, 3))}, b"12"),
    "2 to 0, outside": file_of({"a": entry(offsets=(2, 0))}, b"12"),
    "more elements than fit": file_of({"a": entry(shape=(2**62, 2**62, 0), offsets=(0, 0))}),
    "needs 8": file_of({"a": entry("F32")}, b"12"),
    "'b' starts at byte 1 and overlaps": file_of(
        {"a": entry(), "b": entry(offsets=(1, 3))}, b"123"
    ),
    "'b' starts at byte 3 and leaves a hole": file_of(
        {"a": entry(), "b": entry(offsets=(3, 5))}, b"12345"
    ),
    "starts at byte 1 and leaves": file_of({"a": entry(offsets=(1, 3))}, b"123"),
    "have 2 bytes, the file has 3": file_of({"a": entry()}, b"123"),
    "recursion|JSON": file_of(b'{"a":' + b"[" * 100_000),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_file_is_refused(message):
    BAD[message].seek(0)
    with pytest.raises(CorruptFileError, match=message):
        torch.load(BAD[message])


def test_every_flipped_byte_is_refused():
    whole = saved()
    rng = random.Random(0)
    places = rng.sample(range(len(whole)), min(200, len(whole))) + list(range(16))
    for place in places:
        for flip in (1 << rng.randrange(8), 0x20, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            with pytest.raises(CorruptFileError):
                torch.load(io.BytesIO(damaged))


def test_flipped_data_names_the_tensor():
    damaged = bytearray(saved())
    damaged[-1] ^= 1
    with pytest.raises(CorruptFileError, match="tensor 'weight' does not match its checksum"):
        torch.load(io.BytesIO(damaged))


def test_every_truncation_and_extension_is_refused():
    whole = saved()
    for length in range(len(whole)):
        with pytest.raises(CorruptFileError):
            torch.load(io.BytesIO(whole[:length]))
    with pytest.raises(CorruptFileError):
        torch.load(io.BytesIO(whole + b"\0"))


def test_messages_name_the_file(tmp_path):
    (tmp_path / "bad").write_bytes(b"short")
    with pytest.raises(CorruptFileError, match="bad: the file has 5 bytes"):
        torch.load(tmp_path / "bad")


def test_alignment_and_order(tmp_path):
    tensors = {"a": torch.ones(3, dtype=torch.uint8), "z": torch.ones(1, dtype=torch.float64)}
    safetensors.save_file(tensors, tmp_path / "x")
    raw = (tmp_path / "x").read_bytes()
    header_bytes = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + header_bytes])
    assert header_bytes % 8 == 0
    assert header["z"]["data_offsets"] == [0, 8] and header["a"]["data_offsets"] == [8, 11]


def test_dtypes_without_a_counterpart_are_named():
    """A whole file with float8, which does not exist here."""
    if hasattr(torch, "float8_e4m3fn"):
        return
    with pytest.raises(UnsupportedObjectError, match="F8_E4M3"):
        torch.load(file_of({"f": entry(dtype="F8_E4M3")}, b"\x3c\xc0"))


def test_refused_tensors():
    with pytest.raises(UnsupportedObjectError, match="float4"):
        name_of_dtype("float4")
    with pytest.raises(ValueError, match="__metadata__"):
        safetensors.lay_out({"__metadata__": torch.zeros(1)})


def test_stream_that_cannot_seek_loads():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    assert torch.load(Pipe(saved()))["b"].tolist() == [1, 1, 1]


def test_two_files_in_one_stream_are_refused_not_mixed():
    with pytest.raises(CorruptFileError):
        torch.load(io.BytesIO(saved() + saved()))


def test_the_module_of_the_package_names_writes_only_the_metadata_given(tmp_path):
    path = tmp_path / "x.safetensors"
    package.save_file({"a": torch.ones(2)}, path, {"k": "v"})
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"] == {"k": "v"}
    assert package.load_file(path)["a"].tolist() == [1, 1]
