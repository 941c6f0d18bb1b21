"""Every strategy passes one suite, the example of a user's own among them."""

from paceline.catalogue import load
from paceline.strategies.local import Single, Solo
from paceline.testing import StrategyConformance
from tests.paths import EXAMPLES

MySync = load(f"{EXAMPLES}/own_strategy.py:MySync")


class TestSingle(StrategyConformance):
    strategy = Single()
    num_workers = 1


class TestSolo(StrategyConformance):
    strategy = Solo()


class TestOwnStrategy(StrategyConformance):
    strategy = MySync()
    must_equal_single = True
