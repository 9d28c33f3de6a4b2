"""Checkpoints in several files: one mapping, opened lazily, never outside of its folder."""

import json

import pytest

import rushlight as torch
from rushlight.serialization import CorruptFileError, ShardedCheckpoint, load_sharded, safetensors


def write_index(folder, files, kind="safetensors"):
    name = {"safetensors": "model.safetensors", "bin": "pytorch_model.bin"}[kind]
    text = json.dumps({"metadata": {"total_size": 8}, "weight_map": files})
    (folder / f"{name}.index.json").write_text(text)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_files_are_opened_when_a_tensor_is_asked_for(tmp_path, kind):
    torch.save({"a": torch.ones(2), "b": torch.zeros(3)}, tmp_path / f"1.{kind}")
    write_index(tmp_path, {"a": f"1.{kind}", "b": f"1.{kind}", "c": f"2.{kind}"}, kind)
    state = ShardedCheckpoint(tmp_path)
    assert list(state) == ["a", "b", "c"] and len(state) == 3
    assert state.metadata == {"total_size": 8}
    assert state["a"].tolist() == [1, 1]  # the second file is not there yet
    with pytest.raises(FileNotFoundError):
        state["c"]
    torch.save({"c": torch.full((1,), 5.0)}, tmp_path / f"2.{kind}")
    assert load_sharded(tmp_path)["c"].tolist() == [5]
    with pytest.raises(KeyError):
        state["d"]


def test_a_module_loads_from_it(tmp_path):
    model = torch.nn.Linear(2, 1)
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = torch.nn.Linear(2, 1)
    other.load_state_dict(ShardedCheckpoint(tmp_path))
    assert other.weight.tolist() == model.weight.tolist()


def test_writing_to_a_tensor_leaves_the_file(tmp_path):
    safetensors.save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    state = load_sharded(tmp_path)
    state["a"][0] = 7
    assert state["a"].tolist() == [7, 1]
    assert load_sharded(tmp_path)["a"].tolist() == [1, 1]


BAD_PLACES = ["../x.safetensors", "/etc/passwd", "a/../../x", "..", "", "C:x", "a\\b", "x\0", 3]


@pytest.mark.parametrize("place", BAD_PLACES, ids=repr)
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path, place):
    write_index(tmp_path, {"a": place})
    with pytest.raises(CorruptFileError, match="no file beside the index"):
        ShardedCheckpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', "[" * 100_000, "\xff"])
def test_bad_index_is_refused(tmp_path, text):
    (tmp_path / "model.safetensors.index.json").write_bytes(text.encode("latin1"))
    with pytest.raises(CorruptFileError, match="no index"):
        ShardedCheckpoint(tmp_path)


def test_missing_things_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint is there"):
        ShardedCheckpoint(tmp_path)
    torch.save({"b": torch.ones(1)}, tmp_path / "1.safetensors")
    write_index(tmp_path, {"a": "1.safetensors"})
    with pytest.raises(CorruptFileError, match="no tensor 'a'"):
        ShardedCheckpoint(tmp_path)["a"]
    torch.save([1], tmp_path / "pytorch_model.bin")
    with pytest.raises(CorruptFileError, match="holds a list"):
        ShardedCheckpoint(tmp_path / "pytorch_model.bin")
