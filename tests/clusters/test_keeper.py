"""A keeper whose driver is gone leaves without a word."""

import pytest

from paceline.clusters.keeper import _build
from paceline.clusters.site import Site, Surroundings
from paceline.comm.keeper_words import FROM_KEEPERS, Built, Cannot
from paceline.comm.pair_line import PairLine
from paceline.comm.vocabularies import NOTHING

BUILT = Built(links=[], warnings=["slow"], is_capped=True)


class AnySite(Site):
    """Nodes that can be made, or not."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def build(self) -> Built:
        if self.error is not None:
            raise self.error
        return BUILT

    def enter(self, node: str) -> Surroundings:
        raise NotImplementedError

    def cut(self, node: str, *, is_down: bool) -> None: ...

    def remove(self) -> None: ...


@pytest.mark.parametrize("error", [None, OSError("no rights")])
def test_nobody_is_told_of_nodes_whose_run_was_stopped_meanwhile(error):
    mine, other = PairLine.pair()
    other.close()
    assert _build(AnySite(error), PairLine(mine, hears=NOTHING)) is False
    mine.close()


def test_a_driver_that_waits_is_told_how_it_went():
    mine, other = PairLine.pair()
    keepers, drivers = PairLine(mine, hears=NOTHING), PairLine(other, hears=FROM_KEEPERS)
    assert _build(AnySite(), keepers) is True
    assert drivers.receive(5) == BUILT
    assert _build(AnySite(OSError("no rights")), keepers) is False
    assert drivers.receive(5) == Cannot("no rights")
    keepers.close()
    drivers.close()
