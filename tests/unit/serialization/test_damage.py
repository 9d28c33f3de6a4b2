"""Damaged files of every format: an error that says so, or what was saved; never anything else."""

import base64
import io
import pickle
import random
import struct
import zipfile

import numpy as np
import pytest

import rushlight as torch
from rushlight.serialization import CorruptFileError, UnsupportedObjectError, gguf
from rushlight.serialization.tree_file import write_tree

# Written by PyTorch 2.13 with _use_new_zipfile_serialization=False:
# {a: arange(6.).reshape(2, 3), b: a.t(), i: tensor([1, 2]), h: tensor([1.5]) of bfloat16}
LEGACY = base64.b85decode(
    "fC7pNZ2X)?`5<bjP#G?O0!`@yE`S1kaR4Y-5C8xGaB^>SZ)0z4Uv_13b7^mGaRE)~16U0J003-hbaZTGUuAA&X<="
    "@00*F`&0001Vd2nT4b7^{Ib8!QGaRew>1poj5b7*gJba4es0$2k8003!jba4ht1Xu(B003-nZf9`^O9XXwE`S1KV"
    "{dG1Wn*+{Z*Fr6PjX~sa%E&hX=8K>aR4b&aRDe;0RR91VQ~UubZ>HFXf9uMbZKmJ3SV+%Vs&Y3WM6b;ZgX#PUv@G"
    "IaRVqQSO)+A0CRM2a$#p>aRg&@Z*pU33Px;iVRTb;Z*pO0WeRZxSPlRH068=<H#s;mH!w9fG&C@A23P|C003ifb#"
    "Vtv22ONw2vJJ_O9D#+hH(i?14{vhaSDlO04Y*&3v_V|QgIDf0RR91VsQ>=11KnH1ZV|V4gdfEIW#dhIXE&mFf}(c"
    "G%#@wXa`FMPIPe)QA+?z14{yiaS=-aO9O^+5{YO4DN=D0ba50?aTQnr0001KaTaI;C@5$IV{~tFV`vIYZ*FH(bZ>"
    "HDXJra;7g!De0022OF*i9kG%z$dH8?mpaTsU^O9D=GaT!rd080XeaT-ejg>f5+XaFfvaU67U9a3=~SOEY40BCU^X"
    "aguHXar+)Z*pU33PMI~Z((#XHdAzOa$#p>3UMG<4gdfEIW#dhIX5&gG&wdfGcs`@Xa`FHPIPf1QA+?z0fliRO96#"
    "(B#CGMDN=DIba5t9aVK>yfC61{04P`v0000vG%+_hH#9IbIW;&qIB@}34gdfEIW#dhIX5&gG&wdfGcs`kSPlRH06"
    "8=<H#s;mH!w9fG&C@A17$7(000000000100000000020000000001000000002MKL!8*00000000000001hKL7v#"
    "KmY(hKmY)MKmY)sKm"
)
REFUSALS = (CorruptFileError, pickle.UnpicklingError, UnsupportedObjectError)


def zip_bytes():
    x = torch.arange(6.0).reshape(2, 3)
    file = io.BytesIO()
    torch.save({"a": x, "b": x.t(), "i": torch.tensor([1, 2]), "n": [1, (2.5, "x")]}, file)
    return file.getvalue()


def tree_bytes():
    file = io.BytesIO()
    write_tree({"a": torch.arange(6.0), "n": [1, (2.5, "x")]}, file)
    return file.getvalue()


def gguf_bytes():
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 3)
    head += text("a") + struct.pack("<II", 4, 7)
    head += text("words") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("yy")
    head += text("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 5, 2) + b"1" * 8
    head += text("w") + struct.pack("<IQQIQ", 2, 2, 3, 0, 0)
    head += text("q") + struct.pack("<IQIQ", 1, 32, 8, 32)
    head += b"\0" * (-len(head) % 32)
    block = np.float16(0.5).tobytes() + bytes(range(32))
    return head + np.arange(6, dtype="<f4").tobytes() + b"\0" * 8 + block


def load_gguf(data, folder):
    (folder / "x.gguf").write_bytes(data)
    return gguf.load(folder / "x.gguf")


def load_any(data, folder):
    return torch.load(io.BytesIO(data))


def load_mapped(data, folder):
    (folder / "x").write_bytes(data)
    return torch.load(folder / "x", mmap=True)


FORMATS = {
    "zip": (zip_bytes, load_any),
    "zip mapped": (zip_bytes, load_mapped),
    "legacy": (lambda: LEGACY, load_any),
    "safetensors": (tree_bytes, load_any),
    "gguf": (gguf_bytes, load_gguf),
}


def shown(value):
    """The value as plain data."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.float().tolist()
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return value


def test_the_files_themselves_load(tmp_path):
    for make, load in FORMATS.values():
        assert "a" in load(make(), tmp_path) or "w" in load(make(), tmp_path)
    legacy = torch.load(io.BytesIO(LEGACY))
    legacy["a"][0, 1] = 9
    assert legacy["b"].tolist() == [[0, 3], [9, 4], [2, 5]]
    assert legacy["i"].tolist() == [1, 2] and legacy["h"].tolist() == [1.5]
    assert load_gguf(gguf_bytes(), tmp_path)["q"].tolist() == [i / 2 for i in range(32)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_cut_is_refused(name, tmp_path):
    make, load = FORMATS[name]
    whole = make()
    for length in random.Random(0).sample(range(len(whole)), min(len(whole), 150)):
        with pytest.raises(REFUSALS):
            load(whole[:length], tmp_path)


def damaged(whole, rng):
    """One of: a flipped bit, a byte replaced, a number replaced by a huge one, a part removed,
    a part doubled."""
    data = bytearray(whole)
    at = rng.randrange(len(data))
    how = rng.randrange(5)
    if how == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        data[at] = rng.randrange(256)
    elif how == 2:
        width = rng.choice([2, 4, 8])
        number = rng.choice([2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (4 * width) + 1])
        data[at : at + width] = number.to_bytes(width, "little")
    elif how == 3:
        del data[at : at + rng.randrange(1, 40)]
    else:
        data[at:at] = data[at : at + rng.randrange(1, 40)]
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_refused_or_harmless(name, tmp_path):
    make, load = FORMATS[name]
    whole = make()
    rng, refused = random.Random(7), 0
    for _ in range(400):
        data = damaged(whole, rng)
        try:
            load(data, tmp_path)
        except REFUSALS:
            refused += 1
    assert refused > 100


def test_damaged_pickles_with_right_checksums_are_refused_or_load():
    with zipfile.ZipFile(io.BytesIO(zip_bytes())) as whole:
        records = {name: whole.read(name) for name in whole.namelist()}
    rng, refused = random.Random(8), 0
    pickled = records["archive/data.pkl"]
    for _ in range(600):
        records["archive/data.pkl"] = damaged(pickled, rng)
        try:
            torch.load(archive(records))
        except REFUSALS:
            refused += 1
    assert refused > 300


def test_flips_in_a_zip_file_are_refused_or_change_nothing():
    whole = zip_bytes()
    wanted = shown(torch.load(io.BytesIO(whole)))
    refused = 0
    for at in range(0, len(whole)):
        data = bytearray(whole)
        data[at] ^= 0x10
        try:
            assert shown(torch.load(io.BytesIO(data))) == wanted, at
        except REFUSALS:
            refused += 1
    assert refused > 500  # the rest is padding and fields that nobody reads


def test_damaged_record_is_named(tmp_path):
    data = zip_bytes()
    at = data.index(np.arange(6, dtype="<f4").tobytes())
    (tmp_path / "x.pt").write_bytes(data[:at] + b"\1" + data[at + 1 :])
    with pytest.raises(CorruptFileError, match="x.pt: record 'data/0' does not match its checksum"):
        torch.load(tmp_path / "x.pt")


def archive(records, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, data in records.items():
            made.writestr(name, data)
    file.seek(0)
    return file


def test_compressed_records_are_refused_so_there_are_no_bombs():
    bomb = archive({"a/data.pkl": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED)
    with pytest.raises(CorruptFileError, match="is compressed"):
        torch.load(bomb)


def test_records_that_share_bytes_are_refused():
    file = archive({"a/data.pkl": b"x" * 50, "a/data/0": b"y" * 50})
    data = bytearray(file.getvalue())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = b"\0" * 4  # its header is that of the first record
    with pytest.raises(CorruptFileError, match="overlaps"):
        torch.load(io.BytesIO(data))


def test_names_of_records_lead_nowhere(tmp_path):
    pickled = b"\x80\x02K\x01."
    file = archive({"a/data.pkl": pickled, "../../evil": b"x", "/abs": b"x"})
    assert torch.load(file) == 1
    assert list(tmp_path.parent.glob("**/evil")) == []


def test_a_zip_file_without_a_pickle_is_refused():
    with pytest.raises(CorruptFileError, match="file not found: data.pkl"):
        torch.load(archive({"a/b": b"x"}))


def test_torchscript_archives_are_refused_by_name():
    file = archive({"m/data.pkl": b"\x80\x02N.", "m/constants.pkl": b"\x80\x02)."})
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(file)
    file.seek(0)
    with pytest.raises(UnsupportedObjectError, match="TorchScript"):
        torch.load(file, weights_only=False)


def tensor_pickle(numel, size, stride, offset=0):
    """A pickle of one tensor with these numbers, each a pickled value."""

    def code(value):
        return pickle.dumps(value, 2)[2:-1].replace(b"q\0", b"").replace(b"q\1", b"")

    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\n" + code("0") + code("cpu")
    storage += code(numel) + b"tQ"
    call = b"ctorch._utils\n_rebuild_tensor_v2\n("
    rest = code(offset) + code(size) + code(stride) + b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\x02" + call + storage + rest + b"tR."


def load_tensor(*numbers, **more):
    records = {"a/data.pkl": tensor_pickle(*numbers, **more), "a/data/0": b"\0" * 12}
    return torch.load(archive(records))


def test_the_hand_made_pickle_loads():
    assert load_tensor(3, (3,), (1,)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("numel", [2**40, 2**63, 2**70, -1, 2, 4, 2.5, None, "x", True])
def test_storages_of_other_sizes_are_refused(numel):
    with pytest.raises(REFUSALS):
        load_tensor(numel, (3,), (1,))


WINDOWS = [
    ((4,), (1,), 0), ((3,), (1,), 1), ((2,), (3,), 0), ((-1,), (1,), 0), ((3,), (-1,), 2),
    ((3,), (1,), -1), ((2**62,), (1,), 0), ((2**62, 2**62), (0, 0), 0), ((3,), (), 0),
    ((3,), (1, 1), 0), ((2.0,), (1,), 0), ((True,), (1,), 0), ((None,), (1,), 0),
    ((1,) * 100, (1,) * 100, 0), ("ab", "cd", 0), ((3,), (1,), None), ((3,), (1,), 2**63),
    ((2,), (2**62,), 0), (3, (1,), 0), ((2**63, 0), (1, 1), 0),
]  # fmt: skip


@pytest.mark.parametrize("size,stride,offset", WINDOWS, ids=str)
def test_tensors_outside_of_their_storage_are_refused(size, stride, offset):
    with pytest.raises(REFUSALS):
        load_tensor(3, size, stride, offset=offset)


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><html></html>", b"import torch, numpy"])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="neither a file of torch.save nor of safetensors"):
        torch.load(path)
