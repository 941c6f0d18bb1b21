"""Hosts that join by hand, as threads: each calls once, whenever a run will need it."""

import socket
import threading
import time

import pytest

from paceline.clusters.agents.fleets import Fleets
from paceline.clusters.agents.manual import describe, joining
from paceline.clusters.agents.manual.describe import Manual, _ManualLauncher
from paceline.clusters.agents.manual.meeting import invitation_from, seed_of, who_at
from paceline.clusters.agents.versions import own_versions
from paceline.comm.dialing import TurnedAway, Unanswered, dial
from paceline.comm.keeper_words import TO_AGENTS, Arrived
from paceline.comm.line import LineClosed
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import NOTHING
from paceline.errors import RunError

SECRET = "0123456789abcdef" * 4
HERE = "127.0.0.1"
HOSTS = {"worker": (HERE, "127.0.0.2"), "ps": ("127.0.0.3",)}
PATIENCE_S = 30


class Host(threading.Thread):
    """One on which `paceline join` was typed; nothing is forked there."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(daemon=True)
        self.invitation = invitation_from(SECRET, HERE, port, address, who_at(address))
        self.is_turned_away = False
        self.start()

    def run(self) -> None:
        try:
            line = self._called()
        except TurnedAway:
            self.is_turned_away = True
            return
        word = Arrived(pid=1, host="x", address=HERE, cores=1.0, versions=own_versions())
        try:
            line.send(word)
            while True:
                line.receive(PATIENCE_S)
        except LineClosed:
            line.close()

    def _called(self):
        while True:
            try:
                return dial(self.invitation, TO_AGENTS, looks_after=False)
            except TurnedAway:
                raise
            except Unanswered:
                time.sleep(0.01)


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(describe, "_secrets", [SECRET])
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    return Manual(hosts=HOSTS, address=HERE, port=port)


def test_hosts_that_a_later_run_needs_are_kept_waiting_for_it(cluster):
    """As in `compare single,ring,ps-sync`, with a server of its own host."""
    hosts = [Host(address, cluster.port) for each in HOSTS.values() for address in each]
    fleets = Fleets()
    try:
        with cluster.assembled() as drives:
            assert drives
            single = fleets.of(["node0"], _ManualLauncher(cluster.for_one()), PATIENCE_S)
            ring = fleets.of(["node0", "node1"], _ManualLauncher(cluster), PATIENCE_S)
            servers = fleets.of(["node0", "node1", "node2"], _ManualLauncher(cluster), PATIENCE_S)
        assert single is ring is servers
        assert {*servers.agents} == {"node0", "node1", "node2"}
        assert servers.num_refused == 0
    finally:
        fleets.close()
    for each in hosts:
        each.join(PATIENCE_S)
        assert not each.is_turned_away


def test_who_is_not_waited_for_tries_again_and_says_why(monkeypatch, capsys):
    monkeypatch.setattr(joining, "_SILENT_S", 0.0)
    board = Switchboard(NOTHING, identity_seed=seed_of(SECRET))
    invitation = joining.invited(SECRET, HERE, board.port, "127.0.0.9", 1.0)
    try:
        with pytest.raises(RunError, match=r"not let in within 1 s: .* 127\.0\.0\.9"):
            joining.called_at_last(invitation, 1.0)
        assert board.num_refused > 1
    finally:
        board.close()
    told = capsys.readouterr().err
    assert told.count("trying again for") == 1
    assert "does not wait for 127.0.0.9" in told
