"""Conformance suites: what every strategy and every cluster must do, ours and yours.

Needs pytest. Subclass a suite in a test file, say what is to be tested, and run pytest:

    from paceline.testing import StrategyConformance
    from my_strategy import MySync

    class TestMySync(StrategyConformance):
        strategy = MySync()
"""

from paceline.testing.clusters import ClusterConformance
from paceline.testing.strategies import StrategyConformance
from paceline.testing.workloads import Flawed, Moons, Poisoned

__all__ = ["ClusterConformance", "Flawed", "Moons", "Poisoned", "StrategyConformance"]
