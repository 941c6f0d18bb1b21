"""How the source is laid out: short files, short functions, one name for one thing."""

import ast
import re
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import paceline
from tests.clusters import subprocesses

ROOT = Path(paceline.__file__).parent
MOST_LINES = 400
MOST_ATTRIBUTES = 30
MEDIAN_LINES, P99_LINES = 6, 34
"""Of functions, from `def` to their last line, docstrings included."""


@cache
def sources() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources().items()}


def matching(pattern: str, *below: str) -> list[str]:
    found = re.compile(pattern)
    return [
        f"{name}: {line.strip()}"
        for name, text in sources().items()
        if not below or name.startswith(below)
        for line in text.splitlines()
        if found.search(line)
    ]


def test_no_file_is_long():
    lengths = {name: len(text.splitlines()) for name, text in sources().items()}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_functions_are_short():
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert statistics.median(lengths) <= MEDIAN_LINES
    assert lengths[int(0.99 * len(lengths))] <= P99_LINES


def written_to(tree: ast.AST, *, own: bool) -> set[str]:
    """Names of attributes that are assigned: an object's own, or those of another."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if own == (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


@pytest.mark.parametrize(
    "name", ["WorkerSession", "ScriptSession", "PsMember", "SharedWorkerLink", "RingMember"]
)
def test_what_each_step_looks_up_is_found_fast(name: str):
    """Above 30 attributes Python 3.11 shares no keys between instances: each lookup is slower."""
    classes = {
        node.name: node
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    bases = [classes[each] for each in map(ast.unparse, classes[name].bases) if each in classes]
    fields = {
        ast.unparse(each.target)
        for base in bases
        for each in base.body
        if isinstance(each, ast.AnnAssign)
    }
    # A field of a base that nobody writes to is the class's alone.
    set_by_others = set().union(*(written_to(tree, own=False) for tree in trees().values()))
    set_by_itself = set().union(*(written_to(each, own=True) for each in (classes[name], *bases)))
    found = set_by_itself | (fields & set_by_others)
    assert len(found) <= MOST_ATTRIBUTES, sorted(found)


def test_two_public_classes_never_share_a_name():
    places = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {each: found for each, found in places.items() if len(found) > 1} == {}


def test_seats_are_named_in_one_file():
    assert {
        each.partition(":")[0] for each in matching(r"""f["'](worker|server|monitor)\{""")
    } == set()


def test_who_is_there_is_asked_of_the_roster():
    assert matching(r"range\([^)]*num_workers", "comm/", "strategies/", "outcome/") == []


def test_a_cluster_of_real_machines_is_one_small_file():
    assert len(Path(subprocesses.__file__).read_text().splitlines()) < 150
