"""Files go both ways between this package and the safetensors package."""

import numpy as np
import pytest

pytest.importorskip("torch")
package = pytest.importorskip("safetensors")
from safetensors.numpy import load_file, save_file  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight.serialization import CorruptFileError, safetensors  # noqa: E402

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]


def arrays():
    rng = np.random.default_rng(0)
    out = {f"{name}": rng.integers(0, 2, (3, 2)).astype(name) for name in DTYPES}
    return {**out, "scalar": np.array(2.5), "empty": np.zeros((0, 3), np.float32)}


def test_package_reads_our_files(tmp_path):
    values = arrays()
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    safetensors.save_file(tensors, tmp_path / "x", {"note": "hello"})
    for name, value in load_file(tmp_path / "x").items():
        np.testing.assert_array_equal(value, values[name])
        assert value.dtype == values[name].dtype and value.shape == values[name].shape
    with package.safe_open(tmp_path / "x", framework="np") as file:
        assert file.metadata()["note"] == "hello"


def test_we_read_files_of_the_package(tmp_path):
    values = arrays()
    save_file(values, tmp_path / "x", {"note": "hello"})
    for read in (safetensors.load_file, torch.load):
        for name, tensor in read(tmp_path / "x").items():
            np.testing.assert_array_equal(tensor.numpy(), values[name])
    assert safetensors.load_metadata(tmp_path / "x") == {"note": "hello"}
    mapped = torch.load(tmp_path / "x", mmap=True)
    np.testing.assert_array_equal(mapped["float64"].numpy(), values["float64"])


def test_bfloat16_passes_through_the_package(tmp_path):
    tensors = {"b": torch.tensor([1.5, -2.0]).to(torch.bfloat16)}
    safetensors.save_file(tensors, tmp_path / "x")
    with open(tmp_path / "x", "rb") as file:
        read = dict(package.deserialize(file.read()))
    assert read["b"]["dtype"] == "BF16" and bytes(read["b"]["data"]) == b"\xc0\x3f\x00\xc0"
    back = safetensors.load_file(tmp_path / "x")
    assert back["b"].dtype == torch.bfloat16 and back["b"].float().tolist() == [1.5, -2.0]


def test_saved_tree_is_readable_by_the_package(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    torch.save(model.state_dict(), tmp_path / "x.safetensors")
    read = load_file(tmp_path / "x.safetensors")
    assert set(read) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    np.testing.assert_array_equal(read["0.weight"], model[0].weight.detach().numpy())


def test_both_refuse_a_cut_file(tmp_path):
    safetensors.save_file({"a": torch.ones(4)}, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()[:-1]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(package.SafetensorError):
        load_file(tmp_path / "x")
    with pytest.raises(CorruptFileError, match="tensor 'a'"):
        safetensors.load_file(tmp_path / "x")
