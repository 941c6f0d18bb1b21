"""A dataclass made of plain values has in every field what the field is annotated with."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from paceline.reading.schema import AnyFloat, fits, read


@dataclass(frozen=True)
class Inner:
    size: int


@dataclass(frozen=True)
class Outer:
    name: str
    kind: Literal["one", "two"] = "one"
    share: float | None = None
    flag: bool = False
    inner: tuple[Inner, ...] = ()
    by_name: dict[str, int] | None = None
    pairs: list[tuple[str, float]] | None = None


GOOD = {
    "name": "n",
    "kind": "two",
    "share": 1,
    "flag": True,
    "inner": [{"size": 3, "later": None}],
    "by_name": {"a": 1},
    "pairs": [["a", 0.5]],
    "of a later version": [],
}


def test_values_become_what_they_are_for():
    assert read(Outer, GOOD) == Outer("n", "two", 1, True, (Inner(3),), {"a": 1}, [("a", 0.5)])


def test_what_is_not_given_has_its_default():
    assert read(Outer, {"name": "n"}) == Outer("n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name = 3: not text"),
        ({"name": None}, "name = None: not text"),
        ({"kind": "three"}, "kind = 'three': not one of one, two"),
        ({"kind": []}, "kind = []: not one of one, two"),
        ({"share": float("nan")}, "share = nan: not a finite number"),
        ({"share": 1e999}, "share = inf: not a finite number"),
        ({"share": True}, "share = True: not a finite number"),
        ({"share": 10**400}, "share = 1000"),
        ({"inner": [{"size": 2**64}]}, "inner[0].size = 18446744073709551616: not a whole number"),
        ({"flag": 1}, "flag = 1: not true or false"),
        ({"inner": {}}, "inner = {}: not a list"),
        ({"inner": [{"size": 1}, {"size": "x" * 99}]}, "inner[1].size = 'xxxxxxxxxxxx"),
        ({"inner": [{}]}, "inner[0].size is missing"),
        ({"by_name": {"a": 1.5}}, "by_name.a = 1.5: not a whole number"),
        ({"pairs": [["a"]]}, "pairs[0] = ['a']: not 2 values"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str):
    with pytest.raises(ValueError) as caught:
        read(Outer, GOOD | change)
    assert str(caught.value).startswith(message)


def test_what_is_no_table_is_none():
    with pytest.raises(ValueError, match="it = 3: not a table"):
        read(Outer, 3)


def test_rows_are_told_by_their_fields():
    needed = {"time_s": float, "loss": AnyFloat | None}
    assert fits({"time_s": 1.0, "loss": float("nan"), "x": 1}, needed)
    assert fits({"time_s": 1.0, "loss": None}, needed, rest=int)
    assert not fits({"time_s": 1.0}, needed)
    assert not fits({"time_s": float("nan"), "loss": 1.0}, needed)
    assert not fits({"time_s": 1.0, "loss": 1.0, "x": "text"}, needed, rest=int)
    assert not fits({"time_s": 1.0, "loss": 1.0, "x": "text"}, needed, {"x": float})
    assert not fits(["time_s"], needed)
