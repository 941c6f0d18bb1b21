"""A description checks its values, all of them at once, and says what was wrong with each."""

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.catalogue import load
from paceline.description import (
    Bytes,
    Count,
    Description,
    NotNegative,
    Positive,
    build,
    parse_duration,
    parse_rate,
)
from paceline.description import parse_bytes as parse
from paceline.errors import Problem, SpecError


class Bicycle(Description):
    gears: Count = 21
    weight_kg: Positive = 9.0
    load_kg: NotNegative = 0.0
    brakes: Literal["rim", "disc"] = "rim"
    lock: Count | Literal["none"] | None = None
    memory: Bytes = 1
    place: Path | None = None

    def problems(self) -> Iterator[Problem]:
        if self.load_kg > self.weight_kg:
            yield Problem("bicycle.load_kg", self.load_kg, "more than it weighs itself")


class Wheel(Description):
    spokes: Count


class Plain(Description):
    pass


def problems_of(cls: type[Description], values: dict[str, object]) -> dict[str, Problem]:
    with pytest.raises(SpecError) as caught:
        build(cls, values, "bicycle")
    return {problem.field: problem for problem in caught.value.problems}


def test_every_wrong_field_is_told_at_once_with_its_value():
    wrong = {"gears": 0, "weight_kg": "heavy", "brakes": "drum", "bell": True}
    found = problems_of(Bicycle, wrong)
    assert {field: problem.value for field, problem in found.items()} == {
        f"bicycle.{key}": value for key, value in wrong.items()
    }
    assert found["bicycle.brakes"].choices == ("rim", "disc")
    assert found["bicycle.bell"].reason == "no such field"
    assert "gears" in found["bicycle.bell"].choices


def test_the_message_has_a_line_for_each_problem():
    with pytest.raises(SpecError) as caught:
        build(Bicycle, {"gears": 0, "brakes": "drum"}, "bicycle")
    gears, brakes = str(caught.value).splitlines()
    assert gears.startswith("bicycle.gears = 0: ")
    assert "1" in gears
    assert brakes == "bicycle.brakes = 'drum': not one of the choices (choices: rim, disc)"
    assert caught.value.exit_code == 2


def test_a_field_of_several_types_fails_once():
    found = problems_of(Bicycle, {"lock": "chain"})
    assert list(found) == ["bicycle.lock"]
    assert found["bicycle.lock"].choices == ("none",)
    assert found["bicycle.lock"].value == "chain"


def test_a_field_without_default_must_be_given():
    assert str(problems_of(Wheel, {})["bicycle.spokes"]) == "bicycle.spokes = None: must be given"


def test_a_description_without_fields_says_that_it_has_none():
    assert problems_of(Plain, {"size": 3})["bicycle.size"].reason == "it has no fields"


def test_values_that_do_not_go_together_are_told():
    assert list(problems_of(Bicycle, {"load_kg": 10.0})) == ["bicycle.load_kg"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_quantity_is_a_finite_number(value: float):
    assert list(problems_of(Bicycle, {"weight_kg": value})) == ["bicycle.weight_kg"]
    assert list(problems_of(Bicycle, {"load_kg": value})) == ["bicycle.load_kg"]


def test_text_becomes_what_the_field_holds():
    made = build(Bicycle, {"gears": "3", "lock": "2", "weight_kg": "1e1", "place": "/x"}, "")
    assert (made.gears, made.lock, made.weight_kg, made.place) == (3, 2, 10.0, Path("/x"))


def test_a_field_whose_type_cannot_be_checked_is_a_message_not_a_traceback():
    class Odd(Description):
        lock: type(iter([]))  # type: ignore[valid-type]

    found = problems_of(Odd, {})
    assert list(found) == ["bicycle"]
    assert "Odd" in str(found["bicycle"])


def test_an_error_of_the_users_own_check_names_the_part():
    class Careful(Description):
        gears: int = 1

        def __post_init__(self):
            raise ValueError("no gears today")

    found = problems_of(Careful, {})
    assert list(found) == ["bicycle"]
    assert "no gears today" in found["bicycle"].reason


def test_it_is_frozen_and_equal_by_its_fields():
    with pytest.raises(FrozenInstanceError):
        Bicycle().gears = 3  # type: ignore[misc]
    assert Bicycle(gears=3) == Bicycle(gears=3) != Bicycle()


def test_its_table_begins_with_the_name_and_leaves_out_none():
    table = Bicycle().table()
    assert next(iter(table)) == "name"
    assert table["gears"] == 21
    assert "lock" not in table


def test_a_class_in_a_package_is_named_by_its_module():
    assert Bicycle().name == f"{__name__}:Bicycle"


def test_a_subclass_of_a_shipped_class_is_not_taken_for_it(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("import paceline\nclass Mine(paceline.LogisticMnist): pass\n")
    assert load(f"{file}:Mine")().name == f"{file}:Mine"


def test_a_class_in_a_lone_file_is_named_by_it(tmp_path: Path):
    file = tmp_path / "lone.py"
    file.write_text("from paceline.description import Description\nclass Lone(Description): pass\n")
    lone = load(f"{file}:Lone")
    assert isinstance(lone, type)
    assert lone().name == f"{file}:Lone"


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("233MB", 233_000_000),
        ("64KiB", 65_536),
        ("1.5 gb", 1_500_000_000),
        ("2GiB", 2**31),
        ("10k", 10_000),
        ("10ki", 10_240),
        ("7", 7),
        ("7B", 7),
        ("1_000", 1000),
        (" 1 mib ", 2**20),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, num_bytes: int):
    assert build(Bicycle, {"memory": text}, "").memory == num_bytes


@pytest.mark.parametrize(
    "text", ["", "MB", "5ib", "5i", "ten", "-1kb", "1.2.3mb", "0", f"{9**500}kb"]
)
def test_what_is_no_size_is_told(text: str):
    assert list(problems_of(Bicycle, {"memory": text})) == ["bicycle.memory"]


@given(st.integers(1, 10**12), st.sampled_from(["", "b", "kb", "MB", "GB", "KiB", "mib", "GiB"]))
def test_whole_sizes_are_read_to_the_byte(number: int, unit: str):
    power = "kmg".find(unit[:1].lower() or "?") + 1
    factor = (1024 if "i" in unit.lower() else 1000) ** power
    if number * factor < 2**53:
        assert parse(f"{number}{unit}") == number * factor


@given(st.text() | st.from_regex(r"\s*[\d_.]*\s*[kmgiKMGI]?[iI]?[bB]?\s*", fullmatch=True))
def test_no_text_is_too_strange_to_be_looked_at(text: str):
    assert parse(text) == text or isinstance(parse(text), int)


@given(st.none() | st.integers() | st.floats(allow_nan=False) | st.booleans())
def test_what_is_not_text_is_left_to_the_type_check(value: object):
    assert parse(value) is value


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [("1gbit", 1e9), ("2.5 Gbit", 2.5e9), ("100mbit", 1e8), ("64kbit", 64e3), ("9bit", 9), (7, 7)],
)
def test_rates_are_read_as_they_are_written(text, bits_per_s):
    assert parse_rate(text) == bits_per_s


@pytest.mark.parametrize("text", ["fast", "1gbyte", "-1gbit", "1 g", "", "1.gbit"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="100mbit or 1gbit"):
        parse_rate(text)


@pytest.mark.parametrize(("text", "seconds"), [("5ms", 0.005), ("2s", 2), ("50us", 5e-5), (1, 1)])
def test_durations_are_read_as_they_are_written(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)
