"""Archives: laid out as PyTorch's, read by any tool, also with numbers of 64 bits."""

import io
import zipfile

import pytest

from rushlight.serialization import zip_write
from rushlight.serialization.source import Source
from rushlight.serialization.zip_read import ZipReader
from rushlight.serialization.zip_write import ZipWriter

RECORDS = {
    "a/data.pkl": b"x" * 100,
    "a/empty": b"",
    "a/data/0": bytes(range(256)) * 20,
    "a/1": b"z",
}


def written(records):
    file = io.BytesIO()
    archive = ZipWriter(file)
    for name, data in records.items():
        archive.add(name, data)
    archive.close()
    return file.getvalue()


@pytest.mark.parametrize("limit", [0xFFFFFFFF, 1000, 300, 0])
def test_wide_numbers_are_read_by_us_and_by_python(monkeypatch, limit):
    """With a low limit all that does not fit below it is written as for files above 4 GiB."""
    monkeypatch.setattr(zip_write, "LIMIT_32", limit)
    data = written(RECORDS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == RECORDS
    reader = ZipReader(Source(io.BytesIO(data)))
    assert {f"a/{name}": bytes(reader.read(name)) for name in reader.records} == RECORDS


def test_data_is_aligned():
    reader = ZipReader(Source(io.BytesIO(written(RECORDS))))
    assert all(record.data_at % 64 == 0 for record in reader.records.values())


def test_more_records_than_16_bits_count():
    records = {f"a/{i}": b"" for i in range(70_000)}
    data = written(records)
    assert len(ZipReader(Source(io.BytesIO(data))).records) == 70_000
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.namelist()) == 70_000


def test_an_archive_behind_other_bytes_is_read_from_where_it_starts():
    file = io.BytesIO(b"before" + written(RECORDS))
    file.seek(6)
    assert bytes(ZipReader(Source(file)).read("1")) == b"z"
