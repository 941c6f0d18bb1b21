"""Ring and DDP pass the suite of all strategies."""

import pytest

from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.testing import StrategyConformance
from tests.strategies.equality import EqualsSingle


class TestRing(StrategyConformance):
    strategy = Ring()
    clusters = (Inline(), Local(), Local(transport="zmq"))
    must_equal_single = True


class TestRingInSmallBuckets(StrategyConformance):
    strategy = Ring(bucket_bytes=100, check_every=7)
    clusters = (Inline(), Local(transport="zmq"))
    must_equal_single = True


class TestHalving(StrategyConformance):
    strategy = Ring(algorithm="halving", bucket_bytes=100, check_every=7)
    clusters = (Inline(),)
    must_equal_single = True


@pytest.mark.thorough  # what differs from the one above has tests in tests/comm/allreduce
class TestHalvingByMessages(StrategyConformance):
    strategy = Ring(algorithm="halving")
    clusters = (Local(transport="zmq"),)
    must_equal_single = True


class TestRingOfRealModels(EqualsSingle):
    strategy = Ring()


@pytest.mark.thorough  # of torch's engine; what is ours of it has tests of its own
class TestDdp(StrategyConformance):
    strategy = Ddp(bucket_bytes=100)
    clusters = (Local(),)
    must_equal_single = True
