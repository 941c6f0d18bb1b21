"""What `import paceline` offers: every name is there, documented, and seen by editors too."""

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest

import paceline
from paceline.parts import PARTS
from paceline.training.schedules import SCHEDULES

FILE = Path(paceline.__file__)
FUNCTIONS = ["compare", "explain", "load", "plan", "report", "run", "runs"]


def seen_by_type_checkers() -> dict[str, str]:
    """Names that are imported under TYPE_CHECKING, and from where."""
    tree = ast.parse(FILE.read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    imports = (each for each in block.body if isinstance(each, ast.ImportFrom))
    return {name.name: each.module for each in imports for name in each.names}


def test_dir_lists_every_name_and_nothing_else():
    assert dir(paceline) == sorted(paceline.__all__)
    assert set(FUNCTIONS) <= set(dir(paceline))


def test_type_checkers_see_the_same_names_from_the_same_places():
    assert seen_by_type_checkers() == paceline._HOME_OF
    assert set(paceline.__all__) == set(paceline._HOME_OF)


@pytest.mark.parametrize("name", paceline.__all__)
def test_every_name_is_there_and_documented(name):
    value = getattr(paceline, name)
    if isinstance(value, type) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_of_a_function_is_explained(name):
    function = getattr(paceline, name)
    for parameter in inspect.signature(function).parameters:
        assert f"`{parameter}" in inspect.getdoc(function), parameter


@pytest.mark.parametrize("name", paceline.__all__)
def test_no_module_takes_the_place_of_a_name(name):
    """A module that is imported becomes an attribute of its package."""
    assert importlib.util.find_spec(f"paceline.{name}") is None


@pytest.mark.parametrize("catalogue", [*PARTS.values(), SCHEDULES], ids=lambda each: each.kind)
def test_everything_in_a_catalogue_is_offered_by_its_class(catalogue):
    for name in catalogue.entries:
        cls, _ = catalogue.find(name)
        assert getattr(paceline, cls.__name__) is cls


@pytest.mark.parametrize(
    "name",
    [
        *("Comparison", "Explanation", "Run", "WrittenReport"),
        *("Member", "Place", "Strategy", "Workload", "Data", "Channel", "Update"),
    ],
)
def test_what_users_call_on_values_is_documented(name):
    cls = getattr(paceline, name)
    public = {key: value for key, value in vars(cls).items() if not key.startswith("_")}
    methods = {
        key: value
        for key, value in public.items()
        if inspect.isfunction(value) or isinstance(value, property)
    }
    assert [key for key, value in methods.items() if not inspect.getdoc(value)] == []
