"""Any order of deaths among several servers that go back together: to one version, of one past."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from paceline.comm.line import Line
from paceline.comm.words import Kept
from paceline.store.checkpoints import seat_state, snapshot_of
from paceline.store.states import read_state, write_state
from paceline.strategies.parameter_server.describe import PsSync
from tests.engine.fakes import FakeSeat
from tests.engine.test_random_kills import SPEC, Field

TOGETHER = replace(SPEC, strategy=PsSync(servers=2))
NOTHING = (0, -1)
"""The version and the past of initial values."""


class Several(Field):
    """Servers that keep snapshots, each of which says in which past it was made.

    A past begins when all servers have begun to serve: versions of two have nothing in common.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed, TOGETHER)
        self.begun: dict[tuple[str, int], tuple[int, int]] = {}
        """From which version of which past an incarnation of a server went on."""
        self.newest: dict[tuple[str, int], int] = {}
        self.pasts: dict[tuple[int, ...], int] = {}
        self.num_back = 0

    def restart(self, name: str, incarnation: int) -> Line | None:
        line = super().restart(name, incarnation)
        if name in self.servers:
            kept = snapshot_of(self.run_dir, name)
            self.begun[name, incarnation] = NOTHING if not kept.exists() else self._read(kept)
        return line

    def moves(self) -> list[Callable[[], None]]:
        servers = [self.seats[name] for name in self.servers]
        keeping = [each for each in servers if each.state in ("joined", "serving")]
        return super().moves() + [partial(self.keep, each) for each in keeping]

    def keep(self, server: FakeSeat) -> None:
        """Write a snapshot; it may be killed before it has said so."""
        version, past = self.begun.get((server.name, server.incarnation), NOTHING)
        if server.state == "serving":
            version = self._next_version(server, version)
            past = self._past_of(server)
        path = seat_state(self.run_dir.snapshots, server.name)
        path.parent.mkdir(exist_ok=True)
        write_state(path, {"version": version, "past": torch.tensor([past])})
        if self.random.random() < 0.9:
            server.line.say(Kept(what="snapshot"))

    def _next_version(self, server: FakeSeat, begun: int) -> int:
        """Servers keep some versions alike, and others not."""
        key = server.name, server.incarnation
        self.newest[key] = self.newest.get(key, begun) + self.random.choice((1, 1, 2))
        return self.newest[key]

    def _past_of(self, server: FakeSeat) -> int:
        assert server.roster is not None
        incarnations = tuple(server.roster.by_name[name].incarnation for name in self.servers)
        return self.pasts.setdefault(incarnations, len(self.pasts))

    def _read(self, path: Path) -> tuple[int, int]:
        state = read_state(path)
        version, past = state["version"], state["past"]
        assert isinstance(version, int)
        assert isinstance(past, torch.Tensor)
        return version, int(past)

    def restore(self, server: FakeSeat) -> None:
        """It serves again: all servers that do went on from the same."""
        assert server.roster is not None
        sittings = [server.roster.by_name[name] for name in self.servers]
        begun = {self.begun[each.name, each.incarnation] for each in sittings}
        assert len(begun) == 1, f"they went back to {begun}"
        self.num_back += begun != {NOTHING}
        super().restore(server)


@pytest.mark.parametrize("seed", range(60))
def test_all_go_back_to_one_version_of_one_past_and_the_run_finishes(tmp_path: Path, seed: int):
    field = Several(tmp_path, seed)
    field.run()
    field.close()
    assert (field.outcome.status, field.outcome.reason) == ("finished", None)
    assert field.num_back > 0


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_hundreds_of_orders(tmp_path: Path, seed: int):
    test_all_go_back_to_one_version_of_one_past_and_the_run_finishes(tmp_path, seed)
