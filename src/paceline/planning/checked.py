"""How far predictions were off where they were checked: written by `make bench-plan`, shipped.

The file is beside this one. Where there is none, nothing was checked, and every plan says so.
"""

from __future__ import annotations

from importlib import resources
from typing import Final, final

from paceline.description import Description, NotNegative, NotNegativeInt

FILE: Final = "checked.toml"
_MOST_BYTES: Final = 1 << 20


@final
class Checked(Description):
    """Errors of predictions over cases that no constant was fitted on, as parts of what was."""

    cases: NotNegativeInt = 0
    left_out: NotNegativeInt = 0
    """Cases that this host could not keep up with, or that varied too much."""
    median_error: NotNegative = 0.0
    nine_in_ten: NotNegative = 0.0
    worst_error: NotNegative = 0.0
    nominal_median_error: NotNegative = 0.0
    """The median where links are taken to carry what they were asked to, not what they did."""
    choices: NotNegativeInt = 0
    """Situations in which several strategies were measured."""
    choices_right: NotNegativeInt = 0
    """Of those, in which the one named best was, or was within 3 % of it."""
    most_nodes: NotNegativeInt = 0
    made_on: str = ""

    @property
    def name(self) -> str:
        return "checked"

    @property
    def sentence(self) -> str:
        """Say how far predictions can be trusted."""
        if not self.cases:
            return "Not checked: no prediction of this version has been held against runs yet."
        return (
            f"Checked on {self.made_on}: within {_percent(self.median_error)} in half of "
            f"{self.cases} emulated cases, {_percent(self.nine_in_ten)} in nine of ten, "
            f"{_percent(self.worst_error)} at worst, with links as measured before each run "
            f"({_percent(self.nominal_median_error)} in half with nominal ones); best strategy "
            f"right or within 3 % in {self.choices_right} of {self.choices}. {self.left_out} left "
            f"out: this host could not keep up, or they varied by more than 5 %."
        )

    def beyond(self, machines: int) -> str:
        """Say of how many machines nothing was ever checked."""
        if not self.cases or machines <= self.most_nodes:
            return ""
        return f"Nothing was ever checked beyond {self.most_nodes} nodes."


def checked() -> Checked:
    """Read what is shipped with the program."""
    import tomllib

    from paceline.description import build

    file = resources.files("paceline.planning").joinpath(FILE)
    if not file.is_file():
        return Checked()
    return build(Checked, tomllib.loads(file.read_text(encoding="utf-8")), FILE)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
