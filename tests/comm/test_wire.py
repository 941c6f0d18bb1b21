"""Frames: what is written can be read, and whatever else arrives is a WireError and no more."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.comm import wire
from paceline.errors import WireError

RUN = bytes(range(16))
u64 = st.integers(0, 2**64 - 1)
headers = st.builds(
    wire.Header,
    sender=st.builds("{}{}".format, st.sampled_from(wire.ROLES), st.integers(0, 2**32 - 1)),
    run=st.just(RUN),
    sequence=u64,
    tag=u64,
    dtype=st.sampled_from(wire.DTYPES),
    shape=st.lists(st.integers(0, 100), max_size=wire.MOST_DIMENSIONS).map(tuple),
)
HEADER = wire.Header("worker1", RUN, 1, 2, "float32", (3, 4))


def raw(**changes: object) -> bytes:
    """The frame of HEADER, some of its fields overwritten."""
    fields = {
        "magic": wire.MAGIC,
        "version": wire.VERSION,
        "dtype": 0,
        "dimensions": 2,
        "role": 0,
        "rank": 1,
        "run": RUN,
        "sequence": 1,
        "tag": 2,
        "shape": (3, 4, 0, 0),
        "length": 48,
    } | changes
    *first, shape, length = fields.values()
    return struct.pack("<4sBBBBI16sQQ4QQ", *first, *shape, length)


@given(headers)
def test_a_header_is_read_as_it_was_written(header: wire.Header):
    head = wire.encode(header)
    assert len(head) == wire.HEADER_BYTES
    assert wire.decode(head, header.num_bytes, RUN) == header


def test_the_layout_is_the_documented_one():
    assert wire.encode(HEADER) == raw()


@given(st.binary(max_size=2 * wire.HEADER_BYTES), st.integers(0, 2**40))
def test_random_bytes_are_a_wire_error(head: bytes, num_bytes: int):
    with pytest.raises(WireError):
        wire.decode(head, num_bytes, RUN)


@given(
    header=headers,
    changes=st.lists(
        st.tuples(st.integers(0, wire.HEADER_BYTES - 1), st.integers(0, 255)), max_size=8
    ),
    cut=st.integers(0, 3),
)
def test_a_damaged_frame_is_a_wire_error_or_says_what_it_brings(
    header: wire.Header, changes: list[tuple[int, int]], cut: int
):
    head = bytearray(wire.encode(header))
    for place, value in changes:
        head[place] = value
    try:
        read = wire.decode(bytes(head[: len(head) - cut]), header.num_bytes, RUN)
    except WireError:
        return
    assert read.num_bytes == header.num_bytes
    assert math.prod(max(1, each) for each in read.shape) <= wire.MOST_BYTES


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"magic": b"HTTP"}, "not a frame of this version"),
        ({"version": 2}, "not a frame of this version"),
        ({"run": bytes(16)}, "another run"),
        ({"dtype": 99}, "unknown dtype"),
        ({"role": 2}, "unknown dtype, role"),
        ({"dimensions": 5}, "number of dimensions"),
        ({"dimensions": 1}, "a shape that does not fit"),
        ({"shape": (3, 5, 0, 0)}, "a shape that does not fit"),
        ({"shape": (2**63, 2**63, 0, 0)}, "a shape that does not fit"),
        ({"length": 2**64 - 1}, "a shape that does not fit"),
        ({"shape": (0, 2**64 - 1, 0, 0), "length": 0}, "a shape of"),
        ({"shape": (2**20, 2**20, 0, 0), "length": 2**42}, "a shape of"),
    ],
)
def test_what_is_wrong_with_a_frame_is_told(changes: dict[str, object], reason: str):
    with pytest.raises(WireError, match=reason):
        wire.decode(raw(**changes), 48, RUN)


@pytest.mark.parametrize("num_bytes", [0, 47, 49, 2**33])
def test_a_length_is_believed_only_if_so_much_came(num_bytes: int):
    with pytest.raises(WireError, match=f"{num_bytes} bytes of values, 48 announced"):
        wire.decode(wire.encode(HEADER), num_bytes, RUN)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("bool", (3,)), ("complex64", ()), ("uint8", (1, 1, 1, 1, 1)), ("uint8", (2**32 + 1,))],
)
def test_what_no_receiver_accepts_is_refused_by_the_sender(dtype: str, shape: tuple[int, ...]):
    with pytest.raises(WireError):
        wire.encode(wire.Header("worker0", RUN, 0, 0, dtype, shape))
