"""Packed matrices: the numbers of dequantize(), and products that unpack them inside."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.serialization import UnsupportedObjectError, gguf
from tests.unit.serialization.test_gguf import SCALES_AT, file_of

PACKED = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


def tensors_of(folder, name, shapes, seed=0):
    number = PACKED.get(name, 12)
    kind, rng = gguf.KINDS[number], np.random.default_rng(seed)
    entries, offset = [], 0
    for i, (rows, columns) in enumerate(shapes):
        count = rows * columns // kind.block_numel
        blocks = rng.integers(0, 256, (count, kind.block_bytes)).astype(np.uint8)
        for at in SCALES_AT[number]:
            blocks[:, at : at + 2] = rng.standard_normal((count, 1)).astype("<f2").view(np.uint8)
        entries.append((f"w{i}", (columns, rows), number, offset, blocks.tobytes()))
        offset += -(-blocks.size // 32) * 32
    found = gguf.GGUFFile(file_of(folder, entries)).tensors
    return [found[f"w{i}"] for i in range(len(shapes))]


@pytest.mark.parametrize("rows", [1, 16, 40, 128, 192, 200])
@pytest.mark.parametrize("name", PACKED)
def test_numbers_are_those_of_dequantize(tmp_path, name, rows):
    (tensor,) = tensors_of(tmp_path, name, [(rows, 96)])
    packed = tensor.packed()
    assert packed.shape == (rows, 96)
    assert packed.nbytes == tensor.size_bytes
    assert packed.dequantize().tolist() == tensor.dequantize().tolist()
    index = torch.tensor([[0, rows - 1], [rows // 2, 0]])
    assert packed.rows(index).tolist() == tensor.dequantize()[index].tolist()


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 30])
@pytest.mark.parametrize("name", PACKED)
def test_products(tmp_path, name, rows):
    (tensor,) = tensors_of(tmp_path, name, [(192, 64)])
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(1))
    got = tensor.packed().linear(x)
    expected = x.double().numpy() @ tensor.dequantize().double().numpy().T
    np.testing.assert_allclose(got.numpy(), expected, 1e-4, 1e-3)
    one = tensor.packed().linear(x[0])
    assert one.shape == (192,)
    assert one.tolist() == got[0].tolist()


def test_several_tensors_are_one_matrix(tmp_path):
    tensors = tensors_of(tmp_path, "Q4_1", [(96, 64), (32, 64), (64, 64)])
    packed = gguf.pack(tensors)
    assert packed.shape == (192, 64)
    expected = torch.cat([tensor.dequantize() for tensor in tensors])
    assert packed.dequantize().tolist() == expected.tolist()


def test_what_cannot_be_packed_is_named(tmp_path):
    (tensor,) = tensors_of(tmp_path, "Q4_K", [(4, 256)])
    with pytest.raises(UnsupportedObjectError, match="'w0' is Q4_K of shape"):
        tensor.packed()
    with pytest.raises(ValueError, match="one kind and one width"):
        gguf.pack(tensors_of(tmp_path, "Q4_1", [(4, 64), (4, 32)]))
