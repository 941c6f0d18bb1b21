"""The commands as a whole, and the overview of them, which imports none."""

import inspect
import re

import pytest
from typer.testing import CliRunner

from paceline.cli.app import COMMANDS, app
from paceline.cli.options import _parameters
from paceline.cli.run import spec_options
from paceline.strategies import STRATEGIES


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda each: each.name)
def test_the_overview_says_of_a_command_what_its_own_help_begins_with(entry):
    paragraph = inspect.cleandoc(entry.load().help).split("\n\n")[0]
    assert " ".join(paragraph.split()) == entry.line


def test_the_overview_lists_every_command():
    output = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert re.findall(r"^│ (\w+) ", output, re.MULTILINE) == [each.name for each in COMMANDS]


def test_every_command_is_registered_once():
    names = [each.name for each in COMMANDS]
    assert sorted(names) == sorted(set(names))


def test_a_command_that_is_not_there_is_named_with_the_one_that_may_be_meant():
    outcome = CliRunner().invoke(app, ["shw"])
    assert outcome.exit_code == 2
    assert "No such command 'shw'. Did you mean 'show'?" in outcome.output


def test_data_has_its_commands_in_a_module_each():
    output = CliRunner().invoke(app, ["data", "--help"], env={"COLUMNS": "80"}).output
    assert re.findall(r"^│ (\w+) ", output, re.MULTILINE) == ["ls", "get", "verify", "convert"]


def test_the_help_of_strategy_names_all_of_them():
    (strategy,) = (each for each in _parameters(spec_options) if each.name == "strategy")
    (option,) = strategy.annotation.__metadata__
    assert [name for name in STRATEGIES.entries if f" {name}" not in option.help] == []
