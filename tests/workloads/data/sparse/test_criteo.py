"""Criteo's text: many lines at once give what one line at a time gives, and bad ones are told."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.workloads.data.sparse import criteo, features

integers = st.one_of(st.just(""), st.integers(-3, 10**9).map(str), st.integers(0, 40).map(str))
categories = st.one_of(
    st.just(""), st.from_regex(r"[0-9a-f]{8}", fullmatch=True), st.sampled_from(["0", "AbC", "7f"])
)
labels = st.sampled_from(["0", "1", "-1", "+1"])
rubbish = st.sampled_from(["x", "12a", "--1", "-", "1.5", "123456789", "g0000000", " 1", "2", "é"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Mostly right, sometimes with a field too many, too few, or a wrong one."""
    fields = [draw(labels), *draw(st.lists(integers, min_size=13, max_size=13))]
    fields += draw(st.lists(categories, min_size=26, max_size=26))
    if draw(st.integers(0, 5)) == 0:
        fields[draw(st.integers(0, 39))] = draw(rubbish)
    if draw(st.integers(0, 9)) == 0:
        fields = fields[: draw(st.integers(1, 39))]
    return "\t".join(fields)


@given(st.lists(lines(), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_many_lines_at_once_are_read_as_each_by_itself(rows: list[str], newline: str):
    found = criteo.parse("".join(row + newline for row in rows).encode())
    good, bad = [], {}
    for number, row in enumerate(rows):
        try:
            good.append(criteo.parse_line(row.encode()))
        except ValueError as error:
            bad[number] = str(error)
    assert found.bad == bad
    assert found.labels.tolist() == [label for label, _ in good]
    assert found.keys.tolist() == [keys.tolist() for _, keys in good]


def line(label: str = "1", **columns: str) -> bytes:
    """A row of 7s and deadbeefs, some columns changed."""
    fields = dict.fromkeys(features.COLUMN_NAMES, "7")
    fields |= dict.fromkeys(features.COLUMN_NAMES[13:], "deadbeef")
    return "\t".join([label, *(fields | columns).values()]).encode()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (line().rpartition(b"\t")[0], "39 columns, not 40"),
        (line() + b"\t1", "41 columns, not 40"),
        (line("2"), "label '2' is neither 0 nor 1 (nor -1 nor +1)"),
        (line(""), "label '' is neither 0 nor 1 (nor -1 nor +1)"),
        (line(I3="12a"), "column I3: '12a' is not an integer"),
        (line(I13="1.5"), "column I13: '1.5' is not an integer"),
        (line(C5="xyz"), "column C5: 'xyz' is not a hexadecimal number of at most 8 digits"),
        (line(C26="0123456789"), "column C26: '0123456789' is not a hexadecimal number"),
        (b"", "an empty line"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_and_the_others_are_read(row: bytes, told: str):
    found = criteo.parse(b"\n".join([line("0"), row, line("1"), b""]))
    assert list(found.bad) == [1]
    assert found.bad[1].startswith(told)
    assert found.labels.tolist() == [0.0, 1.0]


def keys_of(**columns: str) -> list[int]:
    return criteo.parse_line(line(**columns))[1].tolist()


def changed(**columns: str) -> set[str]:
    """Which columns' features differ from those of the plain row."""
    pairs = zip(features.COLUMN_NAMES, keys_of(), keys_of(**columns), strict=True)
    return {name for name, one, other in pairs if one != other}


def test_a_feature_is_a_column_and_what_stands_in_it():
    assert changed(C4="deadbeee") == {"C4"}
    assert changed(C4="") == {"C4"}
    assert changed(C4="DEADBEEF") == set()
    assert changed(I2="") == {"I2"}
    assert len(set(keys_of())) == 39  # the same value in two columns is two features
    assert keys_of(C4="0") != keys_of(C4="")


def test_integers_fall_into_log_squared_buckets():
    numbers = np.array([-3, -1, 0, 1, 2, 3, 7, 8, 1000, 999_999])
    expected = [-5, -3, -2, -1, 0, *(int(math.log(v) ** 2) for v in (3, 7, 8, 1000, 999_999))]
    assert features.buckets(numbers).tolist() == expected
    assert changed(I1="8") == {"I1"}  # 3 or 4
    assert keys_of(I1="1000") == keys_of(I1="1010")  # both 47


@given(st.lists(st.integers(0, 2**39), min_size=50, max_size=50, unique=True))
def test_hashes_are_spread_over_all_features(keys: list[int]):
    hashes = features.hashed(np.array(keys, np.uint64))
    numbers = features.numbered(hashes, 1000)
    assert numbers.max() < 1000
    assert len(np.unique(hashes)) == 50
    halves = np.bincount((numbers >= 500).astype(int), minlength=2)
    assert halves.min() >= 5


def test_no_feature_is_left_out_by_hashing():
    keys = np.arange(200_000, dtype=np.uint64)
    counts = np.bincount(features.numbered(features.hashed(keys), 1000).astype(int), minlength=1000)
    assert counts.min() > 120
    assert counts.max() < 290
