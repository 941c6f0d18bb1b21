"""Frames: what is written can be read, and whatever else arrives is a WireError and no more."""

import math
import secrets
import struct
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.comm import wire
from paceline.errors import WireError
from paceline.seats import MOST_NUMBER
from tests.comm.fuzz import frames, fuzz, judge

RUN = bytes(range(16))
u64 = st.integers(0, 2**64 - 1)
kinds = st.builds(
    wire.Kind,
    run=st.just(RUN),
    sender=st.builds("{}{}".format, st.sampled_from(wire.ROLES), st.integers(0, MOST_NUMBER)),
    dtype=st.sampled_from(wire.DTYPES),
    shape=st.lists(st.integers(0, 100), max_size=wire.MOST_DIMENSIONS).map(tuple),
    incarnation=st.integers(0, 2**32 - 1),
)
KIND = wire.Kind(RUN, "worker1", "float32", (3, 4))


def raw(**changes: object) -> bytes:
    """The header of a frame of KIND, some of its fields overwritten."""
    fields = {
        "magic": wire.MAGIC,
        "version": wire.VERSION,
        "dtype": 0,
        "dimensions": 2,
        "role": 0,
        "rank": 1,
        "incarnation": 0,
        "run": RUN,
        "shape": (3, 4, 0, 0),
        "length": 48,
        "sequence": 1,
        "tag": 2,
    } | changes
    *first, shape, length, sequence, tag = fields.values()
    return struct.pack("<4sBBBBII16s4QQQQ", *first, *shape, length, sequence, tag)


@given(kinds, u64, u64)
def test_a_header_is_read_as_it_was_written(kind: wire.Kind, sequence: int, tag: int):
    head = wire.encode(kind, sequence, tag)
    assert len(head) == wire.HEADER_BYTES
    assert wire.decode(head, kind.num_bytes, RUN) == (kind, sequence, tag)


@given(kinds, u64, u64)
def test_numbering_a_frame_changes_only_its_numbers(kind: wire.Kind, sequence: int, tag: int):
    frame = bytearray(wire.encode(kind, 0, 0)) + b"values"
    wire.number(frame, sequence, tag)
    assert frame == wire.encode(kind, sequence, tag) + b"values"


def test_values_begin_where_any_dtype_may():
    assert wire.HEADER_BYTES % max(wire.ITEM_BYTES) == 0


def test_the_layout_is_the_documented_one():
    assert wire.encode(KIND, 1, 2) == raw()


@given(st.binary(max_size=2 * wire.HEADER_BYTES), st.integers(0, 2**40))
def test_random_bytes_are_a_wire_error(head: bytes, num_bytes: int):
    with pytest.raises(WireError):
        wire.decode(head, num_bytes, RUN)


@given(
    kind=kinds,
    changes=st.lists(
        st.tuples(st.integers(0, wire.HEADER_BYTES - 1), st.integers(0, 255)), max_size=8
    ),
    cut=st.integers(0, 3),
)
def test_a_damaged_frame_is_a_wire_error_or_says_what_it_brings(
    kind: wire.Kind, changes: list[tuple[int, int]], cut: int
):
    head = bytearray(wire.encode(kind, 0, 0))
    for place, value in changes:
        head[place] = value
    try:
        read, *_ = wire.decode(bytes(head[: len(head) - cut]), kind.num_bytes, RUN)
    except WireError:
        return
    assert read.num_bytes == kind.num_bytes
    assert math.prod(max(1, each) for each in read.shape) <= wire.MOST_BYTES


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"magic": b"HTTP"}, "not a frame of this version"),
        ({"version": 1}, "not a frame of this version"),
        ({"run": bytes(16)}, "another run"),
        ({"dtype": 99}, "unknown dtype"),
        ({"role": 2}, "unknown sender"),
        ({"rank": MOST_NUMBER + 1}, "unknown sender"),
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
        wire.decode(raw(**changes), changes.get("length", 48), RUN)


@pytest.mark.parametrize("num_bytes", [0, 47, 49, 2**33])
def test_a_length_is_believed_only_if_so_much_came(num_bytes: int):
    with pytest.raises(WireError, match=f"{num_bytes} bytes of values, 48 announced"):
        wire.decode(wire.encode(KIND, 0, 0), num_bytes, RUN)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("bool", (3,)), ("complex64", ()), ("uint8", (1, 1, 1, 1, 1)), ("uint8", (2**32 + 1,))],
)
def test_what_no_receiver_accepts_is_refused_by_the_sender(dtype: str, shape: tuple[int, ...]):
    with pytest.raises(WireError):
        wire.encode(wire.Kind(RUN, "worker0", dtype, shape), 0, 0)


@pytest.mark.parametrize("seed", [0, None], ids=["the same each time", "another each time"])
def test_whatever_arrives_is_refused_or_says_what_it_brings(seed: int | None):
    seed = secrets.randbits(32) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201 - shown if it fails
    accepted = fuzz(100_000, seed)
    assert 0 < accepted < 50_000


def test_what_is_decoded_costs_no_memory():
    stock = list(islice(frames(seed=1), 20_000))
    tracemalloc.start()
    try:
        for frame in stock:
            judge(frame)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for frame in stock:
            judge(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 100_000  # lengths up to 2**64 were announced
