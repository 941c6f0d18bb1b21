"""IDX: what was written is read back, and a damaged file is refused by name."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.workloads.data import idx


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_what_was_written_is_read_back(tmp_path, dtype, zipped):
    array = (np.arange(24).reshape(2, 3, 4) - 5).astype(dtype)
    idx.write(tmp_path / "a", array, zipped=zipped)
    back = idx.read(tmp_path / "a")
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype
    assert back.flags.writeable


def test_gzip_is_told_by_content_not_by_name(tmp_path):
    idx.write(tmp_path / "a.gz", np.arange(5, dtype=np.uint8), zipped=False)
    assert idx.read(tmp_path / "a.gz").tolist() == [0, 1, 2, 3, 4]


def test_zipped_bytes_are_reproducible(tmp_path):
    for name in ("a", "b"):
        idx.write(tmp_path / name, np.arange(50, dtype=np.uint8), zipped=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_type_idx_does_not_have_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"complex128 .*uint8.*float64"):
        idx.write(tmp_path / "a", np.zeros(3, dtype=complex))
    assert list(tmp_path.iterdir()) == []


def _raw(*sizes: int, values: bytes = b"", code: int = 8) -> bytes:
    return struct.pack(f">HBB{len(sizes)}I", 0, code, len(sizes), *sizes) + values


DAMAGED = {
    "empty": (b"", "cut short: 0 of 4 bytes of header"),
    "another format": (b"\x89PNG....", "not an IDX file: begins with 89 50 4e 47"),
    "unknown type": (_raw(1, values=b"x", code=7), "not an IDX file"),
    "sizes cut": (_raw(2, 2)[:9], "cut short: 5 of 8 bytes of sizes"),
    "values cut": (_raw(3, values=b"ab"), "more than the file can hold|cut short"),
    "one byte cut": (_raw(300, values=b"a" * 299), "cut short: 299 of 300"),
    "goes on": (_raw(3, values=b"abcd"), "goes on after the 3 bytes"),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused_by_name(tmp_path, damage, zipped):
    content, reason = DAMAGED[damage]
    path = tmp_path / "some-idx"
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(DataError, match=reason) as caught:
        idx.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_header_that_promises_the_world_allocates_nothing(tmp_path, zipped):
    path = tmp_path / "huge"
    content = _raw(2**32 - 1, 2**32 - 1, 2**32 - 1, values=b"abc")
    path.write_bytes(gzip.compress(content) if zipped else content)
    tracemalloc.start()
    with pytest.raises(DataError, match="more than the file can hold"):
        idx.read(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


def test_every_cut_of_a_gzip_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "a.gz"
    idx.write(path, np.arange(200, dtype=np.uint8), zipped=True)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"a\.gz"):
            idx.read(path)


def test_a_flipped_bit_in_gzip_data_is_noticed(tmp_path):
    path = tmp_path / "a.gz"
    idx.write(path, np.arange(200, dtype=np.uint8), zipped=True)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"a\.gz"):
        idx.read(path)


def test_a_missing_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="nowhere: cannot be read: No such file"):
        idx.read(tmp_path / "nowhere")
