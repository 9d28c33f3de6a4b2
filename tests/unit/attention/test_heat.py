"""Pictures of masks: the densities, the PNG, and `rushlight mask`."""

import struct
import zlib

import numpy as np
import pytest

from rushlight import cli
from rushlight.attention import create_block_mask, masks
from rushlight.attention.gallery import GALLERY, mask_by_name
from rushlight.attention.heat import COLOURS, png_of, shrunk


def pixels_of(data):
    """(height, width, 3) of a PNG with 8-bit colours and rows without a filter."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_a_png_holds_its_numbers_as_colours():
    found = pixels_of(png_of(np.array([[0.0, 1.0, 0.5], [1 / 3, 2 / 3, 2.0]]), 2))
    assert found.shape == (4, 6, 3)
    mixed = (COLOURS[1] + COLOURS[2]) / 2
    want = np.array([[COLOURS[0], COLOURS[3], mixed], [COLOURS[1], COLOURS[2], COLOURS[3]]])
    assert np.abs(found.astype(int) - want.repeat(2, 0).repeat(2, 1)).max() <= 0.5


@pytest.mark.parametrize(("shape", "most"), [((7, 5), 3), ((4, 4), 9), ((1, 10), 4)])
def test_shrunk_cells_are_means(shape, most):
    values = np.random.default_rng(0).random(shape)
    found = shrunk(values, most)
    assert max(found.shape) <= most
    steps = [-(-n // most) for n in shape]
    for r, c in np.ndindex(found.shape):
        cell = values[r * steps[0] : (r + 1) * steps[0], c * steps[1] : (c + 1) * steps[1]]
        assert found[r, c] == pytest.approx(cell.mean())


def test_density_counts_partial_blocks_half():
    mask = create_block_mask(masks.causal, 2, None, 256, 256, BLOCK_SIZE=64)
    want = np.tri(4, k=-1) + np.eye(4) / 2
    assert (mask.density(index=(1, 0)) == want).all()
    assert (mask.density(2) == want.reshape(2, 2, 2, 2).mean((1, 3))).all()


def test_the_gallery_holds_every_mask():
    assert set(GALLERY) == set(masks.__all__)
    with pytest.raises(ValueError, match="there is no mask 'round'; there are causal, "):
        mask_by_name("round", 8)
    with pytest.raises(ValueError, match="has no parameter 'size'; its parameters are window"):
        mask_by_name("sliding_window", 8, size=3)


@pytest.mark.parametrize("name", GALLERY)
def test_every_mask_is_drawn(name, capsys, tmp_path):
    path = tmp_path / "mask.png"
    assert cli.main(["mask", name, "--length", "32", "--png", str(path)]) == 0
    text = capsys.readouterr().out
    assert "32 x 32" in text and f"wrote {path}" in text
    cells = pixels_of(path.read_bytes())[8::16, 8::16]
    kept = np.array_equal(cells, np.broadcast_to(COLOURS[3], cells.shape))
    assert cells.shape == (32, 32, 3) and not kept
    drawn = (cells == COLOURS[3]).all(-1)
    assert drawn.diagonal().all()


def test_causal_as_text(capsys):
    assert cli.main(["mask", "causal", "--length", "4", "--block", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["██      ", "████    ", "██████  ", "████████"]
    assert lines[4] == "4 x 4, 37.5 % in absent blocks of 1"


def test_parameters_and_large_masks(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["mask", "sliding_window", "window=300", "--length", "9000", "--png"]) == 0
    pixels = pixels_of((tmp_path / "sliding_window.png").read_bytes())
    assert pixels.shape == (1000, 1000, 3)
    assert (pixels[0, -1] == COLOURS[0]).all() and (pixels[100, 90] == COLOURS[3]).all()
    assert cli.main(["mask", "document", "lengths=3,5", "--length", "8", "--block", "1"]) == 0
    for bad, text in ((["round"], "no mask 'round'"), (["causal", "x"], "is not NAME=NUMBER"),
                      (["causal", "window=3"], "parameters are none"),
                      (["tree", "parents=5"], "must be one before it")):  # fmt: skip
        assert cli.main(["mask", *bad]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--length", "--block"])
def test_sizes_below_one_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        cli.main(["mask", "causal", option, "0"])
    assert f"argument {option}: 0 is not at least 1" in capsys.readouterr().err


def test_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path, capsys):
    path = tmp_path / "absent" / "mask.png"
    assert cli.main(["mask", "causal", "--length", "4", "--png", str(path)]) == 1
    assert str(path) in capsys.readouterr().err.splitlines()[0]


def test_missing_name_asks_for_the_name_alone(capsys):
    with pytest.raises(SystemExit):
        cli.main(["mask"])
    assert capsys.readouterr().err.endswith("arguments are required: name\n")


def test_the_list_names_all(capsys):
    assert cli.main(["mask", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(GALLERY)
    assert "sliding_window window=16" in lines
