"""When servers keep snapshots: as often as is wished, and several of them of equal versions."""

from paceline.errors import StateError
from paceline.strategies.parameter_server.snapshots import EqualSnapshots, Snapshots


class Server:
    """One that makes updates, each of which takes a while by its own clock."""

    def __init__(self, every_s: float, update_s: float) -> None:
        self.now_s, self.update_s, self.version = 0.0, update_s, 0
        self.is_at_rest = True
        self.kept: list[int] = []
        snapshots = Snapshots(every_s, self._state, self._keep, lambda: self.now_s)
        self._snapshots = EqualSnapshots(snapshots, lambda: self.version)

    def _state(self):
        if not self.is_at_rest:
            raise StateError("application", "a push", "still to be applied")
        return {"version": self.version}

    def _keep(self, state) -> bool:
        self.kept.append(state["version"])
        return True

    def update(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_s += self.update_s
            self.version += 1
            self._snapshots.look()


def test_they_are_at_least_as_far_apart_as_is_wished_and_not_twice_as_far():
    server = Server(every_s=10.0, update_s=0.1)
    server.update(3000)
    gaps = [b - a for a, b in zip(server.kept, server.kept[1:], strict=False)]
    assert gaps == [128] * len(gaps)
    assert len(gaps) > 20


def test_servers_of_unequal_clocks_keep_versions_that_both_have():
    servers = [Server(10.0, 0.0777), Server(10.0, 0.0799)]
    for each in servers:
        each.update(5000)
    one, other = (set(each.kept) for each in servers)
    assert one != other
    assert len(one & other) > 10


def test_they_come_more_often_again_where_updates_take_longer():
    server = Server(every_s=10.0, update_s=0.01)
    server.update(4096)
    server.update_s = 1.0
    server.update(4096)
    assert server.kept[-1] - server.kept[-2] <= 32


def test_none_is_far_off_after_updates_have_become_much_slower():
    server = Server(every_s=10.0, update_s=0.01)
    server.update(5000)
    before = server.kept[-1]
    server.update_s = 1.0
    server.update(45)  # of a thousand between two
    assert server.kept[-1] > before


def test_servers_of_unequal_clocks_have_a_version_in_common_soon_after_a_slowdown():
    servers = [Server(10.0, 0.00777), Server(10.0, 0.00799)]
    for each, update_s in zip(servers, (1.0, 1.03), strict=True):
        each.update(5000)
        each.update_s = update_s
        each.update(80)
    one, other = (set(each.kept) for each in servers)
    assert max(one & other) > 5000


def test_a_version_is_decided_on_once():
    """Of a later moment there might be gradients of the next one in it."""
    server = Server(every_s=1.0, update_s=2.0)
    server.is_at_rest = False
    server.update()
    server.is_at_rest = True
    server._snapshots.look()
    assert server.kept == []
    server.update()
    assert server.kept == [2]
