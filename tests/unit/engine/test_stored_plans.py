"""Plans on disk: a new process runs no pass for a graph that was compiled before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.base.config import child_environment, config
from rushlight.compiler.target import Missing
from rushlight.engine import kernels, programs, realize, stored_plans
from rushlight.ir import opdef
from rushlight.ops.rules import operand_dtype, operand_shape
from rushlight.runtime import cache
from rushlight.runtime.cache import DiskCache, pack_entry, unpack_entry

SCRIPT = """
import sys
import rushlight as torch
from rushlight.engine import programs
real, passes = programs.compile_graph, []
programs.compile_graph = lambda *args, **options: (passes.append(1), real(*args, **options))[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(9, 8), torch.nn.Linear(8, 8), torch.nn.GELU())
optimizer = torch.optim.AdamW(model.parameters())
def step(index):
    optimizer.zero_grad()
    loss = (model(index) - torch.linalg.inv(torch.eye(8) * 2)[0]).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
compiled = torch.compile(step)
losses = [step(torch.arange(n)) for n in (3, 4, 5)] + [compiled(torch.arange(6)) for _ in range(4)]
words = [loss.numpy().tobytes().hex() for loss in losses]
words += [p.detach().numpy().tobytes().hex() for p in model.parameters()]
try:
    model(torch.tensor([1, 4]) * 3).tolist()
except IndexError as error:
    words.append(str(error).replace(" ", "_"))
print(len(passes), *words)
"""


def start_process(directory: Path, **settings: str) -> list[str]:
    settings = {
        "RUSHLIGHT_CACHE_DIR": str(directory),
        "RUSHLIGHT_CACHE": "1",
        "CHECK": "0",
        **settings,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True, text=True, env=child_environment(**settings), check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_a_second_process_runs_no_pass_and_gives_the_same_bits(tmp_path: Path) -> None:
    first = start_process(tmp_path / "cache")
    second = start_process(tmp_path / "cache")
    assert int(first[0]) >= 4
    assert second == ["0", *first[1:]]
    assert first[-1].endswith("index_12_is_out_of_bounds_for_dimension_0_with_size_9")
    assert start_process(tmp_path / "cache", CHECK="1") == first


@pytest.mark.parametrize("name", ["c", "opencl", "metal"])
def test_a_second_process_of_another_backend_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    """Their kernels are lowered again from the program, so plans alone would do nothing."""
    found = find_backend(name).find()
    if isinstance(found, Missing):
        pytest.skip(f"{name}: {found.reason}")
    options = {"RUSHLIGHT_BACKEND": name, "RUSHLIGHT_OPENCL_OPTIONS": "-cl-opt-disable"}
    first = start_process(tmp_path / "cache", **options)
    assert start_process(tmp_path / "cache", **options) == first
    native = start_process(tmp_path / "cache", RUSHLIGHT_BACKEND="llvm")
    near = [[float(loss) for loss in losses_in(run)] for run in (first, native)]
    assert near[0] == pytest.approx(near[1], rel=1e-5)


def losses_in(words: list[str]) -> np.ndarray:
    """The seven losses of SCRIPT."""
    return np.frombuffer(bytes.fromhex("".join(words[1:8])), np.float32)


def test_with_debug_all_is_compiled_for_its_lines_and_costs(tmp_path: Path) -> None:
    first = start_process(tmp_path / "cache")
    assert start_process(tmp_path / "cache", DEBUG="2") == first


class Passes:
    """Counts compilations; `forget` makes this a new process, as far as programs go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch, self.count = monkeypatch, 0
        self.real = programs.compile_graph
        monkeypatch.setattr(programs, "compile_graph", self.compile)
        self.forget()

    def compile(self, *args, **options):
        self.count += 1
        return self.real(*args, **options)

    def forget(self) -> None:
        self.monkeypatch.setattr(kernels, "_BUILT", {})
        self.monkeypatch.setattr(realize, "PROGRAMS", programs.ProgramCache())

    def took(self, run: Callable[[], object]) -> int:
        before = self.count
        run()
        return self.count - before


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    with config.override(cache_dir=str(tmp_path / "cache"), cache=True, check=0):
        yield Passes(monkeypatch)


def softmax(rows: int = 6, columns: int = 40) -> list:
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 7
    return torch.softmax(torch.tensor(values), -1).sum(0).tolist()


def plan_files() -> list[Path]:
    """Entries that hold plans: they are JSON."""
    files = [p for p in Path(config.cache_dir).rglob("*") if p.is_file()]
    return [p for p in files if b'"regions":' in p.read_bytes()]


def test_a_plan_is_found_and_gives_the_same(passes: Passes) -> None:
    expected = softmax()
    passes.forget()
    assert passes.took(lambda: expected == softmax() or pytest.fail("other bits")) == 0


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda data: b"", lambda data: b"\0" * 700])
def test_damaged_plans_are_compiled_again(damage, passes: Passes) -> None:
    expected = softmax()
    (path,) = plan_files()
    path.write_bytes(damage(path.read_bytes()))
    for count in (1, 0):  # compiled and written again, then found
        passes.forget()
        assert passes.took(lambda: expected == softmax() or pytest.fail("other bits")) == count


def stored_under(path: Path, change: Callable[[dict], object]) -> None:
    """Write another value into an entry, with a right checksum."""
    whole = path.read_bytes()
    record = json.loads(whole[whole.index(b'{"variables"') :])
    value = change(record)
    data = value if isinstance(value, bytes) else json.dumps(record).encode()
    path.write_bytes(pack_entry(path.name, data))


CHANGES = {
    "not json": lambda record: b"\x7fELF" + b"\0" * 60,
    "another thing": lambda record: b"[1, 2]",
    "no regions": lambda record: record.pop("regions"),
    "a size that runs": lambda record: record["buffers"][0].__setitem__(1, "__import__('os')"),
    "an unknown dtype": lambda record: record["buffers"][0].__setitem__(0, "float7"),
    "a kernel that is gone": lambda record: record["kernels"][0].__setitem__("key", "0" * 64),
    "a kernel too few": lambda record: record["kernels"].pop(),
    "buffers that are not there": lambda record: record["buffers"].pop(),
    "too few buffers": lambda record: record["regions"][0][0]["buffers"].pop(),
    "too few sizes": lambda record: record["regions"][0][0].__setitem__("ints", ["1"] * 9),
    "an unknown op": lambda record: record["regions"][0].append(
        {"host": "no_such_op", "attrs": [], "inputs": [], "outputs": [], "shapes": [], "at": 0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_whole_entry_that_is_no_plan_of_ours_is_compiled_again(change, passes: Passes) -> None:
    expected = softmax()
    (path,) = plan_files()
    stored_under(path, change)
    for count in (1, 0):
        passes.forget()
        assert passes.took(lambda: expected == softmax() or pytest.fail("other bits")) == count


def test_kernels_that_were_evicted_are_built_again(passes: Passes) -> None:
    expected = softmax()
    for path in Path(config.cache_dir).rglob("*"):
        if path.is_file() and path not in plan_files():
            path.unlink()
    passes.forget()
    assert passes.took(lambda: expected == softmax() or pytest.fail("other bits")) == 1


@pytest.mark.parametrize("what", ["package", "target", "threads"])
def test_another_version_or_target_finds_nothing(what, passes: Passes, monkeypatch) -> None:
    softmax()
    passes.forget()
    changed = {"cpu_features": "-avx512f"} if what == "target" else {}
    if what == "threads":
        changed = {"num_threads": 7}
    if what == "package":
        monkeypatch.setattr(stored_plans, "package_hash", lambda: "another version")
    with config.override(**changed):
        assert passes.took(softmax) == 1


def test_a_folder_of_somebody_else_is_not_used(passes: Passes, tmp_path: Path) -> None:
    softmax()
    os.chmod(config.cache_dir, 0o777)
    cache._disk.cache_clear()
    passes.forget()
    try:
        with pytest.warns(UserWarning, match="mode 0777"):
            assert passes.took(softmax) == 1
    finally:
        cache._disk.cache_clear()


def test_two_writers_and_a_reader(passes: Passes) -> None:
    """Whole entries only, whoever comes first."""
    expected, wrong = softmax(), []
    (path,) = plan_files()
    data = path.read_bytes()
    cache, stop = DiskCache(config.cache_dir, 1 << 30), threading.Event()
    value = data[data.index(b'{"variables"') :]

    def write() -> None:
        while not stop.is_set():
            cache._write(path, pack_entry(path.name, value))

    def read() -> None:
        for _ in range(300):
            if unpack_entry(path.name, path.read_bytes()) != value:
                wrong.append("a torn entry")

    writers = [threading.Thread(target=write) for _ in range(2)]
    for thread in writers:
        thread.start()
    read()
    stop.set()
    for thread in writers:
        thread.join()
    passes.forget()
    assert not wrong and passes.took(lambda: expected == softmax() or pytest.fail("bits")) == 0


def test_symbolic_sizes_are_kept(passes: Passes) -> None:
    expected = {n: softmax(n) for n in (6, 9, 13)}
    assert passes.count == 2
    passes.forget()
    assert (
        passes.took(lambda: expected == {n: softmax(n) for n in (6, 9, 13)} or pytest.fail()) == 0
    )
    assert passes.took(lambda: softmax(21)) == 0


def test_memory_is_updated_in_place_as_before(passes: Passes) -> None:
    def run() -> list:
        cache = torch.zeros(40, 8)
        cache.tolist()
        address = cache._storage.node.buffer.address
        cache[torch.tensor([3]) + 1] = 2.0
        assert cache.sum().item() == 16
        assert cache._storage.node.buffer.address == address
        return cache.tolist()

    expected = run()
    passes.forget()
    assert passes.took(lambda: expected == run() or pytest.fail("other bits")) == 0


def test_errors_name_the_line_of_now_and_the_value(passes: Passes) -> None:
    table = torch.zeros(5, 2)

    def first() -> None:
        table[torch.tensor([1, 2]) * 4].tolist()

    def second() -> None:
        table[torch.tensor([1, 2]) * 4].tolist()

    with pytest.raises(IndexError, match="index 8 .*size 5"):
        first()
    passes.forget()
    before = passes.count
    line = second.__code__.co_firstlineno + 1
    with pytest.raises(IndexError, match=rf"test_stored_plans.py:{line}\): index 8 .*size 5"):
        second()
    assert passes.count == before


def test_host_functions_come_back(passes: Passes) -> None:
    def run() -> list:
        return (torch.linalg.inv(torch.eye(3) * 2) + torch.linalg.qr(torch.eye(3)).R).tolist()

    expected = run()
    passes.forget()
    assert passes.took(lambda: expected == run() or pytest.fail("other bits")) == 0


def test_a_record_of_the_user_is_not_kept(passes: Passes) -> None:
    """Its meaning is no part of the key."""
    try:
        record = opdef.op(
            name="twice_for_this_test", doc="2x", inputs=(opdef.Arg("x"),), shape=operand_shape,
            dtype=operand_dtype, grad=opdef.NotDifferentiable("a test"),
            reference=lambda x: x + x, decompose=lambda x: x + x,
        )  # fmt: skip

        def run() -> None:
            assert record(torch.ones(3)).tolist() == [2, 2, 2]

        run()
        assert not plan_files()
        passes.forget()
        assert passes.took(run) == 1
    finally:
        opdef._OPS.pop("twice_for_this_test", None)


def test_nothing_is_written_when_the_cache_is_off(passes: Passes) -> None:
    with config.override(cache=False):
        softmax()
    assert not Path(config.cache_dir).exists() or not plan_files()


def test_who_wants_checks_gets_them(passes: Passes) -> None:
    softmax()
    passes.forget()
    with config.override(check=1):
        assert passes.took(softmax) == 1


def test_whoever_listens_sees_the_passes(passes: Passes, tmp_path: Path) -> None:
    softmax()
    passes.forget()
    with config.override(dump=str(tmp_path / "dump")):
        assert passes.took(softmax) == 1
    assert list((tmp_path / "dump").rglob("*choose_points*"))
