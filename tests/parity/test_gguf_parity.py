"""Files of the gguf package: the same metadata and, bit for bit, the same numbers."""

import numpy as np
import pytest

package = pytest.importorskip("gguf")

from rushlight.serialization import gguf  # noqa: E402

QUANTIZED = ("BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
PACKED = {"Q4_K": (144, 0, 4), "Q5_K": (176, 0, 4), "Q6_K": (210, 208, 210)}


def arrays():
    """Name: (bytes, kind, what the package makes of them)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 512)).astype(np.float32)
    out = {}
    for name in QUANTIZED:
        kind = package.GGMLQuantizationType[name]
        data = package.quants.quantize(x, kind)
        out[name] = data, kind, package.quants.dequantize(data, kind)
    for name, (size, start, end) in PACKED.items():
        kind = package.GGMLQuantizationType[name]
        blocks = rng.integers(0, 256, (4, 2, size)).astype(np.uint8)
        scales = rng.standard_normal((4, 2, (end - start) // 2)).astype(np.float16)
        blocks[..., start:end] = scales.view(np.uint8)
        data = blocks.reshape(4, -1)
        out[name] = data, kind, package.quants.dequantize(data, kind)
    return out


def test_files_of_the_package_are_read(tmp_path):
    path = tmp_path / "x.gguf"
    writer = package.GGUFWriter(path, "llama")
    writer.add_uint32("a.b", 3)
    writer.add_array("words", ["x", "yy"])
    writer.add_tensor("F16", np.arange(6, dtype=np.float16).reshape(2, 3))
    expected = arrays()
    for name, (data, kind, _) in expected.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = gguf.GGUFFile(path)
    assert file.metadata["general.architecture"] == "llama"
    assert (file.metadata["a.b"], file.metadata["words"]) == (3, ["x", "yy"])
    assert file["F16"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for name, (_, _, numbers) in expected.items():
        np.testing.assert_array_equal(file[name].float().numpy(), numbers, name)
