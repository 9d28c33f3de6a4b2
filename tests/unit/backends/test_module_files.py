"""Generated Python modules: what runs is the text, whatever lies in the folder."""

from __future__ import annotations

import inspect
import os
import tempfile
from pathlib import Path

import pytest

from rushlight.backends.cfamily.module_impl import load_module
from rushlight.base.config import config

TEXT = "def answer():\n    return 42\n"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path):
    with config.override(cache_dir=str(tmp_path / "cache"), cache=True):
        yield tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("kernels_*.py"))


def check(module) -> None:
    assert module.answer() == 42
    assert inspect.getsource(module.answer) == TEXT


def test_a_text_is_a_file_that_nobody_else_can_write(cache_folder) -> None:
    check(load_module(TEXT))
    check(load_module(TEXT))
    (path,) = files(cache_folder)
    assert path.read_text() == TEXT and not list(cache_folder.rglob("*.pyc"))
    assert path.parent.stat().st_mode & 0o077 == cache_folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("lies", [b"", b"def answer():\n    return 13\n", b"\xff\0 (", b"def answ"])
def test_a_damaged_file_is_written_again(lies: bytes, cache_folder) -> None:
    load_module(TEXT)
    (path,) = files(cache_folder)
    path.write_bytes(lies)
    check(load_module(TEXT))
    assert path.read_text() == TEXT


def test_a_read_only_folder_will_do(cache_folder, monkeypatch) -> None:
    real = tempfile.mkstemp

    def refuse(dir=None, **more):
        if str(dir).startswith(str(cache_folder)):
            raise OSError(30, "Read-only file system")
        return real(dir=dir, **more)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    check(load_module(TEXT))
    assert not files(cache_folder)


def test_a_folder_that_others_can_write_is_not_used(cache_folder) -> None:
    cache_folder.mkdir()
    os.chmod(cache_folder, 0o777)
    with pytest.warns(UserWarning, match="working without a disk cache"):
        check(load_module(TEXT))
    assert not files(cache_folder)


def test_without_a_cache_nothing_lies_there(cache_folder) -> None:
    with config.override(cache=False):
        check(load_module(TEXT))
    assert not cache_folder.exists()
