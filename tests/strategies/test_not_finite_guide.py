"""The guide's table of what becomes of a bad gradient has every strategy, and is what happens."""

import re

import pytest

from paceline.strategies import STRATEGIES
from paceline.testing import Flawed
from paceline.training.finite import INFINITE, NAN, TOO_LARGE
from tests.paths import ROOT
from tests.sharing import run
from tests.strategies.test_ring_rules import spec_of

GUIDE = (ROOT / "docs" / "guide" / "not-finite.md").read_text()
TABLE = dict(re.findall(r"^\| `([\w-]+)` \| .* \| (1|N) \|$", GUIDE, flags=re.MULTILINE))


def test_every_strategy_is_in_the_table():
    assert set(TABLE) == set(STRATEGIES.entries) - {"own"}  # a script's own is not looked into


@pytest.mark.parametrize("flaw", [NAN, INFINITE, TOO_LARGE])
def test_every_flaw_is_in_the_guide(flaw):
    assert f"`{flaw}`" in GUIDE


@pytest.mark.parametrize("name", sorted(TABLE))
def test_one_bad_row_costs_as_many_steps_as_the_table_says(name, tmp_path):
    strategy, num_workers = STRATEGIES.build({"name": name}), 1 if name == "single" else 3
    spec = spec_of(
        strategy, workload=Flawed(), num_workers=num_workers, worker_steps=None, epochs=1
    )
    assert run(spec, out=tmp_path).refused_steps == (num_workers if TABLE[name] == "N" else 1)
