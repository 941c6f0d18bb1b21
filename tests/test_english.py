"""Sentences that users read are in plain English: none has a habit that was dropped.

A habit is a phrase by which readers from elsewhere stumble; `PLAIN` says what to write instead.
Scanned are the string literals and field docstrings of the package, the texts of studies, and the
guides. Comments and the docstrings of code are for us, and not scanned.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

PACKAGE = ROOT / "src" / "paceline"
GUIDES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "guide").glob("*.md"),
    ]
)
# What is measured or made so many times for each of these: "rows per second", not "rows a second".
COUNTED = r"(?:(?<!which )rows|steps?|images?|samples?|updates?|packets?|bytes|models?|weights?)"
EACH = r"(?:second|step|worker|node|row|run|seat|server|class|column|feature|exchange)"
ONE = r"(?:one|file|folder|panel|sub-folder|monitor|thread|process)"
PLAIN = {
    rf"\b{COUNTED} an? {EACH}\b": "per",
    rf"\b{ONE} an? (?:worker|node|run|seat|server|class|column|feature|command)\b": "per",
    r"\brows a worker takes a step\b": "rows per worker per step",
    r"\bwhat was asked for is wrong\b": "invalid settings; nothing was started",
    r"\balone also of workers\b": "without --workers, also the number of workers",
    r"\blets nobody\b": "cannot … here",
    r"\bonly in how they are watched\b": "this field changes only recording",
    r"\bno file of rates\b": "not a rates file",
    r"\bnothing travels that\b": "sends no messages to …",
    r"\bfollows from data: use real compute\b": "sparse models cannot be replayed",
    r"\bso (?:many|much)\b(?! (?:as|that|of))": "the name of the number",
    r"\b(?:nobody|everybody)\b": "no worker, no program; each, all",
    r"\bcounted to nobody\b": "lost",
    r"\b(?:is|are) told\b": "reported, named",
    r"\bin the place of\b": "instead of",
    r"\bof fewer steps nothing\b": "fewer steps give no verdict",
    r"\bheld (?:a run|a side|each side|the run) (?:up|back)\b": "limited",
    r"\bthreads of arithmetic\b": "compute threads",
    r"\bof somebody's own\b": "user-defined",
}
HABITS = {re.compile(habit, re.IGNORECASE): instead for habit, instead in PLAIN.items()}


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Where a text has a habit: lines after its first, the words, and what to write instead."""
    for habit, instead in HABITS.items():
        for match in habit.finditer(re.sub(r"\s", " ", text)):
            yield text.count("\n", 0, match.start()), match[0], instead


def is_field(before: ast.stmt) -> bool:
    return isinstance(before, ast.AnnAssign | ast.Assign)


def ours(tree: ast.Module) -> set[ast.Constant]:
    """The docstrings that no user reads: all but those of fields and of commands."""
    return {
        node.value
        for block in ast.walk(tree)
        if isinstance(body := getattr(block, "body", None), list)
        for before, node in zip([block, *body], body, strict=False)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_field(before) and not is_command(block)
    }


def is_command(block: ast.AST) -> bool:
    """A function whose parameters are options: its docstring is the help of a command."""
    return isinstance(block, ast.FunctionDef) and "typer." in ast.unparse(block.args)


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """The literals of a module; what is filled into one stands as `{}`."""
    tree = ast.parse(source)
    left_out = ours(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            left_out.update(each for each in node.values if isinstance(each, ast.Constant))
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and node not in left_out:
            yield node.lineno, str(node.value)


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        yield from sentences(path.read_text())
    else:
        yield 1, path.read_text()


def complaints(path: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line + more}: {words!r}; write: {instead}"
        for line, text in texts_of(path)
        for more, words, instead in found_in(text)
    ]


SOURCES = [*GUIDES, *sorted(PACKAGE.rglob("*.py")), *sorted((PACKAGE / "studies").glob("*.toml"))]


def test_no_sentence_for_users_has_a_habit_that_was_dropped():
    found = [each for path in SOURCES for each in complaints(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "written",
    [
        "rows a worker takes a step",
        "number of emulated nodes, alone also of workers; default: one a worker",
        "this machine lets nobody make its nodes",
        "sides that differ only in how they are watched are one side of a report",
        "it is there, and no file of rates: it is not overwritten",
        "through shared memory nothing travels that cluster.encrypt could encrypt",
        "has packets arrive so much later",
        "what keepers had used was counted to nobody",
        "moves 5 rows a\nsecond",
        "ring in the place of ps-sync",
    ],
)
def test_what_was_dropped_is_found(written):
    assert list(found_in(written))


def test_a_module_is_read_as_its_users_do():
    source = '''
"""Rows a second: ours."""
class Spec:
    """Rows a second: ours."""
    batch: int
    """Rows a step."""
def run(number):
    """Nobody reads this."""
    raise ValueError(
        f"{number} rows a second, "
        "for nobody"
    )  # nobody
'''
    found = [words for _, text in sentences(source) for _, words, _ in found_in(text)]
    assert sorted(found) == ["Rows a step", "nobody", "rows a second"]
