"""Checkpoints in folders, and state dicts of wrapped models."""

import pathlib
import pickle

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor
from rushlight.serialization.pickle_write import dump


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    step = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    step.step()
    step.zero_grad()
    return model, step


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_nested_values_come_back(tmp_path):
    model, step = trained()
    state = {"model": model.state_dict(), "step": step.state_dict(), "n": 7, "words": ["a", 1],
             "list": [torch.ones(2), 3], "view": torch.arange(10)[2:5]}  # fmt: skip
    dcp.save(state, checkpoint_id=tmp_path / "c")
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == [".metadata", "__0_0.distcp"]
    other, other_step = trained()
    target = {"model": other.state_dict(), "step": other_step.state_dict(), "n": 0, "words": [],
              "list": [torch.zeros(2), 0], "view": torch.zeros(3, dtype=torch.int64)}  # fmt: skip
    dcp.load(target, storage_reader=dcp.FileSystemReader(tmp_path / "c"))
    assert same({**state, "words": target["words"]}, target)
    assert torch.equal(other[0].weight, model[0].weight)  # in place


def test_errors(tmp_path):
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: b"):
        dcp.load({"b": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Size mismatch"):
        dcp.load({"a": torch.ones(3)}, checkpoint_id=tmp_path)
    kept = {"a": torch.zeros(2), "b": 5}
    dcp.load(kept, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert kept["a"].tolist() == [1, 1] and kept["b"] == 5
    with pytest.raises(RuntimeError, match="already exists"):
        dcp.save({}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        dcp.save({})


class Evil:
    def __reduce__(self):
        return print, ("no",)


def test_metadata_runs_nothing(tmp_path):
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError, match="builtins.print"):
        dcp.FileSystemReader(tmp_path).read_metadata()
    for cut in (b"", b"\x80\x04"):
        (tmp_path / ".metadata").write_bytes(cut)
        with pytest.raises((EOFError, pickle.UnpicklingError)):
            dcp.FileSystemReader(tmp_path).read_metadata()


@pytest.mark.parametrize("name", ["__builtins__", "__dict__", "torch", "_getattr_of", "Any"])
def test_metadata_reaches_no_other_name_of_its_module(tmp_path, name):
    text = f"ctorch.distributed.checkpoint.metadata\n{name}\n."
    (tmp_path / ".metadata").write_bytes(text.encode())
    with pytest.raises(pickle.UnpicklingError, match="not allowed"):
        dcp.FileSystemReader(tmp_path).read_metadata()


def test_metadata_sets_no_attribute_of_a_class(tmp_path):
    # PosixPath, (None, {"is_absolute": 1}), BUILD: would replace the method of all paths.
    text = b"cpathlib\nPosixPath\n(N}X\x0b\x00\x00\x00is_absoluteI1\nstb."
    (tmp_path / ".metadata").write_bytes(text)
    with pytest.raises(pickle.UnpicklingError, match="not allowed"):
        dcp.FileSystemReader(tmp_path).read_metadata()
    assert callable(pathlib.PurePath.is_absolute)


def _with_record(folder, name, **changes):
    """The checkpoint, where the record of one value's bytes is changed."""
    found = dcp.FileSystemReader(folder).read_metadata()
    record = next(info for index, info in found.storage_data.items() if index.fqn == name)
    record.__dict__.update(changes)
    (folder / ".metadata").write_bytes(dump(found, 4)[0])


def test_values_run_nothing(tmp_path):
    dcp.save({"a": torch.ones(2), "n": 5}, checkpoint_id=tmp_path)
    data, size = pickle.dumps(Evil()), (tmp_path / "__0_0.distcp").stat().st_size
    with open(tmp_path / "__0_0.distcp", "ab") as file:
        file.write(data)
    _with_record(tmp_path, "n", offset=size, length=len(data))
    with pytest.raises(pickle.UnpicklingError, match="Weights only"):
        dcp.load({"a": torch.zeros(2), "n": 0}, checkpoint_id=tmp_path)


@pytest.mark.parametrize("change", [{"offset": -5}, {"length": 1 << 60}, {"length": -1}])
def test_records_past_the_file(tmp_path, change):
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    _with_record(tmp_path, "a", **change)
    with pytest.raises(EOFError, match="ends within a"):
        dcp.load({"a": torch.zeros(2)}, checkpoint_id=tmp_path)


def test_metadata_names_no_file_outside(tmp_path):
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "c")
    reader = dcp.FileSystemReader(tmp_path / "c")
    found = reader.read_metadata()
    for info in found.storage_data.values():
        info.relative_path = "../x"
    writer = dcp.FileSystemWriter(tmp_path / "c")
    found.storage_data, results = {}, found.storage_data
    writer.finish(
        found, [[type("R", (), {"index": i, "storage_data": s}) for i, s in results.items()]]
    )
    with pytest.raises(pickle.UnpicklingError, match="outside"):
        dcp.load({"a": torch.zeros(2)}, checkpoint_id=tmp_path / "c")


class App:
    def __init__(self, model, step):
        self.model, self.step = model, step

    def state_dict(self):
        model, step = get_state_dict(self.model, self.step)
        return {"model": model, "optim": step}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.step, model_state_dict=state["model"], optim_state_dict=state["optim"]
        )


def test_stateful_objects_and_sharded_models(tmp_path, group):
    model, step = trained()
    dcp.save({"app": App(model, step)}, checkpoint_id=tmp_path)
    other, _ = trained()
    fully_shard(other)
    other_step = torch.optim.AdamW(other.parameters())
    dcp.load({"app": App(other, other_step)}, checkpoint_id=tmp_path)
    assert isinstance(other[0].weight, DTensor)
    assert torch.equal(other[0].weight.full_tensor(), model[0].weight)
    state = other_step.state[other[0].weight]["exp_avg"]
    assert torch.equal(state.full_tensor(), step.state[model[0].weight]["exp_avg"])
    whole = get_model_state_dict(other, options=StateDictOptions(full_state_dict=True))
    assert not any(isinstance(value, DTensor) for value in whole.values())
    set_model_state_dict(other, whole)


def test_names_are_the_bare_models(group):
    model, _ = trained()
    keys = list(model.state_dict())
    wrapped = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*(checkpoint_wrapper(layer) for layer in model))
    )
    compiled = torch.compile(wrapped)
    for each in (wrapped, compiled):
        assert list(get_model_state_dict(each)) == keys
        step = torch.optim.Adam(each.parameters())
        found = get_optimizer_state_dict(each, step)
        assert list(found["state"]) == keys and found["param_groups"][0]["params"] == keys
        set_model_state_dict(each, {key: torch.zeros_like(v) for key, v in
                                    model.state_dict().items()})  # fmt: skip
        assert not model[0].weight.any()


def test_flat_optimizer_state_comes_back():
    model, step = trained()
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    flat = get_optimizer_state_dict(model, step, options=options)
    assert "state.0.weight.exp_avg" in flat and flat["param_groups.1.bias.lr"] == 0.001
    flat = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in flat.items()}
    other = torch.optim.AdamW(model.parameters(), lr=1.0)
    set_optimizer_state_dict(model, other, flat)
    assert other.param_groups[0]["lr"] == 0.001
    assert torch.equal(other.state[model[0].weight]["exp_avg"], flat["state.0.weight.exp_avg"])


def test_making_the_state_changes_no_parameter():
    model, _ = trained()
    before = [p.detach().clone() for p in model.parameters()]
    step = torch.optim.AdamW(model.parameters(), lr=0.5)
    get_optimizer_state_dict(model, step)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert step.param_groups[0]["lr"] == 0.5


def test_one_file_and_back(tmp_path):
    model, _ = trained()
    torch.save({"m": model.state_dict()}, tmp_path / "a.pt")
    torch_save_to_dcp(tmp_path / "a.pt", tmp_path / "c")
    dcp_to_torch_save(tmp_path / "c", tmp_path / "b.pt")
    assert same(torch.load(tmp_path / "b.pt")["m"], dict(model.state_dict()))


def test_async_save_keeps_the_values_of_its_call(tmp_path):
    x = torch.ones(3)
    future = dcp.async_save({"x": x}, checkpoint_id=tmp_path)
    x.zero_()
    future.result() if hasattr(future, "result") else future.wait()
    target = {"x": torch.zeros(3)}
    dcp.load(target, checkpoint_id=tmp_path)
    assert target["x"].tolist() == [1, 1, 1]
