"""A keeper whose driver is gone leaves without a word."""

import pytest

from paceline.clusters.keeper import _build
from paceline.comm.line import Line


class Site:
    """Stands for nodes that can be made, or not."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def build(self, dilation: float) -> dict:
        if self.error is not None:
            raise self.error
        return {"links": [], "warnings": [f"{dilation:g}"]}


@pytest.mark.parametrize("error", [None, OSError("no rights")])
def test_nobody_is_told_of_nodes_whose_run_was_stopped_meanwhile(error):
    mine, other = Line.pair()
    other.close()
    assert _build(Site(error), {"dilation": 1.0}, Line(mine)) is False
    mine.close()


def test_a_driver_that_waits_is_told_how_it_went():
    mine, other = Line.pair()
    keepers, drivers = Line(mine), Line(other)
    assert _build(Site(), {"dilation": 2.0}, keepers) is True
    assert drivers.receive(5) == {"kind": "built", "links": [], "warnings": ["2"]}
    assert _build(Site(OSError("no rights")), {"dilation": 1.0}, keepers) is False
    assert drivers.receive(5) == {"kind": "cannot", "reason": "no rights"}
    keepers.close()
    drivers.close()
