"""libsvm's text: many lines at once give what one line at a time gives, and bad ones are told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.workloads.data.sparse import libsvm

MOST = 2**32 - 1
values = st.sampled_from(["1", "0.5", "-2", "1e-3", "12345678", "0.123456789", "+3.", ".5"])
rubbish = st.sampled_from(["0:1", "x:1", "1:x", "5", "1:", ":1", "1:1_0", "1:nan", "3:1:1"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Mostly right, sometimes with a wrong pair, or out of order."""
    indices = sorted(draw(st.sets(st.integers(1, 10**10), max_size=6)))
    pairs = [f"{index}:{draw(values)}" for index in indices]
    if draw(st.integers(0, 5)) == 0:
        pairs.insert(draw(st.integers(0, len(pairs))), draw(rubbish))
    if draw(st.integers(0, 5)) == 0:
        pairs.reverse()
    label = draw(st.sampled_from(["0", "1", "-1", "+1", "1.0", "2", "", "1e0"]))
    space, end = (
        draw(st.sampled_from([" ", "  ", "\t"])),
        draw(st.sampled_from(["", " ", " # x:y"])),
    )
    return space.join([label, *pairs]) + end


@given(st.lists(lines(), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_many_lines_at_once_are_read_as_each_by_itself(rows: list[str], newline: str):
    found = libsvm.parse("".join(row + newline for row in rows).encode())
    good, bad = [], {}
    for number, row in enumerate(rows):
        try:
            good.append(libsvm.parse_line(row.partition("#")[0].encode(), MOST))
        except ValueError as error:
            bad[number] = str(error)
    assert found.bad == bad
    examples = found.examples.as_vector()
    assert examples.labels.tolist() == [each.labels[0] for each in good]
    for number, each in enumerate(good):
        one = examples.take(np.array([number]))
        assert one.features.tolist() == each.features.tolist()
        assert one.values.tolist() == pytest.approx(each.values.tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b"1 0:1", "index 0: indices begin at 1"),
        (b"1 3:1 2:1", "index 2 comes after index 3: they must ascend"),
        (b"1 3:1 3:1", "index 3 comes after index 3: they must ascend"),
        (b"1 1:1 50:1", "index 50 is above num_features = 40"),
        (b"2 1:1", "label '2' is neither 0 nor 1 (nor -1 nor +1)"),
        (b"1 qid:7 1:1", "'qid:7' is not of the form index:value"),
        (b"1 1:inf", "'1:inf' is not of the form index:value"),
        (b"", "an empty line"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_and_the_others_are_read(row: bytes, told: str):
    found = libsvm.parse(b"\n".join([b"-1 2:0.5", row, b"1", b""]), num_features=40)
    assert found.bad == {1: told}
    assert found.examples.labels.tolist() == [0.0, 1.0]
    assert found.examples.features.tolist() == [1]
    assert found.examples.starts.tolist() == [0, 1, 1]
