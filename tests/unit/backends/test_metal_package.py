"""Metal kernels ahead of time. **No Mac was at hand**: Apple's interface is imitated."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from cfamily_cases import programs_of, square_product

from rushlight.backends import find_backend
from rushlight.backends.metal import driver_impl, package
from rushlight.backends.metal.caps import caps_of
from rushlight.base.config import config
from rushlight.base.errors import BackendError
from rushlight.cli import main


@pytest.fixture
def written(tmp_path):
    """(folder, the text of its kernel)."""
    programs = programs_of(square_product().build())
    assert find_backend("metal").package(programs, tmp_path) == []
    return tmp_path, find_backend("metal").lower_text(programs[0], caps_of("device", ""))


def test_a_script_becomes_a_folder_of_kernels(tmp_path, capsys) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(8, 8)\nprint((x @ x).sum().item())\n")
    assert main(["package", "--out", str(tmp_path / "kernels"), str(script)]) == 0
    record = json.loads((tmp_path / "kernels" / "manifest.json").read_text())
    files = sorted(path.stem for path in (tmp_path / "kernels").glob("*.metal"))
    assert files == sorted(record["kernels"]) and files
    for stem, entry in record["kernels"].items():
        text = (tmp_path / "kernels" / f"{stem}.metal").read_text()
        assert all(f"kernel void {name}(" in text for name in entry["kernels"])
    script_text = (tmp_path / "kernels" / "build.sh").read_text()
    assert "xcrun -sdk macosx metal -std=metal3.0 -fno-fast-math" in script_text
    assert "programs written to" in capsys.readouterr().out
    assert main(["package", "--backend", "c", "--out", "x", str(script)]) == 2


def test_a_library_is_used_for_exactly_its_text(written, monkeypatch) -> None:
    folder, text = written
    with config.override(metal_package=str(folder)):
        assert package.find_library(text) is None, "not compiled yet"
        library = folder / f"{package.stem_of(text)}.metallib"
        library.write_bytes(b"")
        assert package.find_library(text) == library
        assert package.find_library(text + " ") is None
        (folder / f"{package.stem_of(text)}.metal").write_text("changed")
        with pytest.raises(BackendError, match="was changed"):
            package.find_library(text)
    assert package.find_library(text) is None, "no folder is named"


def test_another_version_and_no_package_are_refused(written, tmp_path) -> None:
    folder, text = written
    record = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**record, "version": 99}))
    with config.override(metal_package=str(folder)):
        with pytest.raises(BackendError, match="version 99, this is 1.*rushlight package"):
            package.find_library(text)
    with config.override(metal_package=str(tmp_path / "nowhere")):
        with pytest.raises(BackendError, match="is no package of kernels"):
            package.find_library(text)


def test_a_library_is_loaded_and_not_compiled(tmp_path, monkeypatch) -> None:
    asked = []

    class Device:
        def newLibraryWithURL_error_(self, url, error):
            asked.append(url)
            if "bad" in url:
                return None, "damaged"
            return SimpleNamespace(newFunctionWithName_=lambda name: f"function {name}"), None

        def newComputePipelineStateWithFunction_error_(self, function, error):
            return f"pipeline of {function}", None

    url = SimpleNamespace(fileURLWithPath_=lambda path: f"file:{path}")
    monkeypatch.setitem(sys.modules, "Foundation", SimpleNamespace(NSURL=url))
    monkeypatch.setattr(driver_impl, "open_device", Device)
    found = driver_impl.compile_pipelines("text", ["a", "b"], tmp_path / "good.metallib")
    assert found == ["pipeline of function a", "pipeline of function b"]
    assert asked == [f"file:{tmp_path / 'good.metallib'}"]
    with pytest.raises(BackendError, match="cannot be loaded: damaged"):
        driver_impl.compile_pipelines("text", ["a"], tmp_path / "bad.metallib")
