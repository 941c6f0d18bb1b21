"""How far predictions were off where they were checked: written by `make bench-plan`, shipped.

The file is beside this one. Where there is none, nothing was checked, and every plan says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Annotated, Final, final

from pydantic import BeforeValidator

from paceline.description import Description, NotNegative, NotNegativeInt
from paceline.planning.candidates import in_text
from paceline.planning.scenario import parse_list

FILE: Final = "checked.toml"
_MOST_BYTES: Final = 1 << 20


@final
class Checked(Description):
    """Errors of predictions over cases that no constant was fitted on, as parts of what was."""

    cases: NotNegativeInt = 0
    left_out: NotNegativeInt = 0
    """Cases that did not count: this host could not keep up with them or emulate them, they varied
    too much, or they failed."""
    median_error: NotNegative = 0.0
    nine_in_ten: NotNegative = 0.0
    worst_error: NotNegative = 0.0
    nominal_median_error: NotNegative = 0.0
    """The median where links are taken to carry what they were asked to, not what they did."""
    choices: NotNegativeInt = 0
    """Situations in which several strategies were measured."""
    choices_right: NotNegativeInt = 0
    """Of those, in which the one named best was, or was within 3 % of it."""
    least_nodes: NotNegativeInt = 0
    most_nodes: NotNegativeInt = 0
    least_link: NotNegative = 0.0
    most_link: NotNegative = 0.0
    """Bits per second."""
    most_latency: NotNegative = 0.0
    """Seconds."""
    labels: Annotated[tuple[str, ...], BeforeValidator(parse_list)] = ()
    """The candidates that were run."""
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
            f"right or within 3 % in {self.choices_right} of {self.choices}. {self.left_out} more "
            f"cases do not count: this host could not keep up with them or emulate them, they "
            f"varied by more than 5 %, or they failed."
        )

    @property
    def scope(self) -> str:
        """Say what was checked, and what was not; nothing where that is not known."""
        if not self.cases or not self.labels:
            return ""
        return (
            f"Checked were {self.least_nodes} to {self.most_nodes} nodes with one worker each, "
            f"links of {_rate(self.least_link)} to {_rate(self.most_link)} and latencies of up to "
            f"{1e3 * self.most_latency:g} ms, with {_listed(self.labels)}. Nothing else was: no "
            "ddp, no servers apart, no racks, no real machines."
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


def _rate(bits_per_s: float) -> str:
    many = bits_per_s >= 1e9
    return f"{bits_per_s / (1e9 if many else 1e6):g} {'Gbit/s' if many else 'Mbit/s'}"


def _listed(labels: Sequence[str]) -> str:
    *others, last = map(in_text, labels)
    return f"{', '.join(others)} and {last}" if others else last
