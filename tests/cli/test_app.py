"""The commands as a whole."""

from paceline.cli.app import app
from paceline.cli.options import _parameters
from paceline.cli.run import spec_options
from paceline.strategies import STRATEGIES


def test_every_command_is_registered_once():
    names = [each.name for each in app.registered_commands]
    assert sorted(names) == sorted(set(names))


def test_the_help_of_strategy_names_all_of_them():
    (strategy,) = (each for each in _parameters(spec_options) if each.name == "strategy")
    (option,) = strategy.annotation.__metadata__
    assert [name for name in STRATEGIES.entries if f" {name}" not in option.help] == []
