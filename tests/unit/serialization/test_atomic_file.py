"""A file is the old one or the new one, also when the writer is killed at any time."""

import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.serialization.atomic_file import replace_file

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys
import rushlight as torch
step = 0
while True:
    step += 1
    torch.save({"step": step, "data": torch.full((200_000,), float(step))}, sys.argv[1])
    print(step, flush=True)
"""


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        raise KeyError("no")

    with pytest.raises(KeyError):
        replace_file(path, fail)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_mode_and_link_are_kept(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    os.chmod(tmp_path / "real", 0o640)
    os.symlink("real", tmp_path / "link")
    replace_file(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "real").read_bytes() == b"new" and (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(os.stat(tmp_path / "real").st_mode) == 0o640


def test_everything_is_synced_in_order(tmp_path, monkeypatch):
    torch.save(torch.ones(1), tmp_path / "x")  # what has to be compiled is in the kernel cache now
    log = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda h: (log.append("folder" if is_folder(h) else "file"), sync(h))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (log.append("rename"), replace(a, b)))
    torch.save(torch.ones(1), tmp_path / "x")
    assert log == ["file", "rename", "folder"]


def is_folder(handle):
    return stat.S_ISDIR(os.fstat(handle).st_mode)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_writer_never_loses_the_file(tmp_path):
    path = tmp_path / "checkpoint"
    rng = random.Random(0)
    newest = 0
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            newest = int(writer.stdout.readline())
            time.sleep(rng.uniform(0, 0.03))
        finally:
            writer.kill()
            rest = writer.communicate()[0].split()
        newest = int(rest[-1]) if rest else newest
        got = torch.load(path)
        # One more than was printed may be there: killed between the rename and the print.
        assert got["step"] in (newest, newest + 1)
        assert got["data"].min().item() == got["data"].max().item() == got["step"]
