"""Settings of saving and loading, and devices that others register."""

import io
import mmap
import os
import types
import zipfile

import pytest

import rushlight as torch
from rushlight import serialization


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file


def sums(file):
    return [entry.CRC for entry in zipfile.ZipFile(file).infolist()]


def test_checksums_can_be_left_out():
    assert serialization.get_crc32_options() is True and all(sums(saved(torch.ones(3)))[:2])
    serialization.set_crc32_options(False)
    try:
        file = saved(torch.ones(3))
    finally:
        serialization.set_crc32_options(True)
    assert not any(sums(file))
    file.seek(0)
    assert torch.load(file).tolist() == [1, 1, 1]


def test_values_can_be_left_out_and_put_in_later():
    whole = saved(torch.arange(1.0, 5))
    with serialization.skip_data():
        bare = saved(torch.arange(1.0, 5))
        whole.seek(0)
        assert torch.load(whole).tolist() == [0, 0, 0, 0]
    bare.seek(0)
    assert torch.load(bare).tolist() == [0, 0, 0, 0]
    filled = torch.arange(1.0, 5).numpy().tobytes()
    at = whole.getvalue().index(filled)
    file = io.BytesIO(bare.getvalue()[:at] + filled + bare.getvalue()[at + len(filled) :])
    assert torch.load(file).tolist() == [1, 2, 3, 4]


def without_byteorder(file):
    """The archive without the record that says its byte order."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            if not entry.filename.endswith("/byteorder"):
                new.writestr(entry.filename, old.read(entry))
    out.seek(0)
    return out


def test_the_byte_order_of_unmarked_files():
    file = without_byteorder(saved(torch.tensor([1, 2], dtype=torch.int16)))
    assert torch.load(file).tolist() == [1, 2]
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        file.seek(0)
        assert torch.load(file).tolist() == [256, 512]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument"):
        serialization.set_default_load_endianness("big")


def test_mapping():
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with serialization.set_default_mmap_options(mmap.MAP_PRIVATE):
        pass
    with pytest.raises(NotImplementedError, match="MAP_SHARED"):
        serialization.set_default_mmap_options(mmap.MAP_SHARED)
    with pytest.raises(ValueError, match="got 99"):
        serialization.set_default_mmap_options(99)


def test_a_registered_device(monkeypatch):
    monkeypatch.setattr(serialization.packages, "REGISTERED", [])
    monkeypatch.setattr(serialization.map_location, "REGISTERED", serialization.packages.REGISTERED)
    asked = []

    def restore(storage, location):
        asked.append(location)
        return storage if location == "box" else None

    serialization.register_package(20, lambda storage: None, lambda *_: None)
    serialization.register_package(10, lambda storage: "box", restore)
    file = saved(torch.ones(2))
    file.seek(0)
    assert torch.load(file, map_location="box").tolist() == [1, 1] and asked == ["box"]
    storage = torch.ones(2).untyped_storage()
    assert serialization.location_tag(storage) == "box"
    assert serialization.default_restore_location(storage, "box") is storage
    assert serialization.default_restore_location(storage, "cpu") is storage
    with pytest.raises(RuntimeError, match="tagged with nowhere"):
        serialization.default_restore_location(storage, "nowhere")


def test_small_helpers():
    check = serialization.check_module_version_greater_or_equal
    module = types.SimpleNamespace(__name__="m", __version__="1.2.rc")
    assert check(module, (1, 2)) and not check(module, (1, 3))
    with pytest.raises(RuntimeError, match="malformed"):
        check(module, (1, 2, 3))
    with pytest.warns(UserWarning, match="assuming"):
        assert check(module, (1, 2, 3), error_if_malformed=False)
    with pytest.raises(RuntimeError, match="HPU"):
        serialization.validate_hpu_device("hpu:0")
    with serialization.mkdtemp() as folder:
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
