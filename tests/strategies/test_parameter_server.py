"""Parameter servers pass the suite of all strategies, over shared memory and by messages."""

from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from paceline.testing import StrategyConformance
from tests.strategies.equality import EqualsSingle

EVERYWHERE = (Inline(), Local(), Local(transport="zmq"))


class TestSync(StrategyConformance):
    strategy = PsSync()
    clusters = EVERYWHERE


class TestSyncWithThreeServersInSmallChunks(StrategyConformance):
    strategy = PsSync(servers=3, chunk_bytes=100)
    clusters = EVERYWHERE


class TestSyncOfRealModels(EqualsSingle):
    strategy = PsSync(servers=2, chunk_bytes=1 << 16)


class TestAsync(StrategyConformance):
    strategy = PsAsync()
    clusters = EVERYWHERE


class TestAsyncWithTwoServersInSmallChunks(StrategyConformance):
    strategy = PsAsync(servers=2, chunk_bytes=100)
    clusters = (Inline(), Local(transport="zmq"))


class TestBoundedStale(StrategyConformance):
    strategy = PsSsp(staleness=1)
    clusters = (Inline(), Local())
