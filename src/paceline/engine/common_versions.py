"""Which version all servers have kept, where one that is lost has all of them go back to it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self, final

from paceline.engine.server_returns import servers_return
from paceline.errors import StoreError
from paceline.spec import RunSpec
from paceline.store.checkpoints import seat_state
from paceline.store.runs import RunDir
from paceline.store.states import version_of

_NONE: Final = -1


@final
class CommonVersions:
    """Holds on to each server's snapshots until all servers have a newer one of one version.

    A server writes each under the same name; what is held has another.
    """

    def __init__(self, run: RunDir, servers: Sequence[str]) -> None:
        self._run = run
        self._held: dict[str, dict[int, Path]] = {name: {} for name in servers}

    @classmethod
    def of(cls, spec: RunSpec, run: RunDir) -> Self | None:
        """Make one where servers go back together."""
        if not (spec.strategy.servers_go_back_together and servers_return(spec)):
            return None
        return cls(run, [each.name for each in spec.seats() if each.role == "server"])

    def kept(self, server: str) -> None:
        """A server has written a snapshot: hold it, and let go what is older than all need.

        Raises `StoreError` or `OSError` where it cannot be held.
        """
        self._hold(server)
        common = self._newest()
        for held in self._held.values():
            for version in [each for each in held if each < common]:
                held.pop(version).unlink(missing_ok=True)

    def agree(self) -> int:
        """Lay out the newest version that all have, each server's where it looks for it.

        Done while none of them trains. Returns that version, or -1 where there is none: then all
        begin as they did at first.
        """
        for server in self._held:
            with contextlib.suppress(StoreError, OSError):  # the one before is held
                self._hold(server)
        common = self._newest()
        self._run.agreed_snapshots.mkdir(parents=True, exist_ok=True)
        for server, held in self._held.items():
            self._lay_out(server, held.get(common))
        return common

    def _lay_out(self, server: str, agreed: Path | None) -> None:
        """Put what a server goes back to where it looks for it, and let go all else of it.

        Older versions too: what was laid out before is one of them, in the same place.
        """
        laid_out, held = seat_state(self._run.agreed_snapshots, server), self._held[server]
        if agreed is None:
            laid_out.unlink(missing_ok=True)
        else:
            agreed.replace(laid_out)
        for each in {*held.values()} - {agreed, laid_out}:
            each.unlink(missing_ok=True)
        self._held[server] = {version: laid_out for version in held if held[version] == agreed}

    def _newest(self) -> int:
        return max(set.intersection(*map(set, self._held.values())), default=_NONE)

    def _hold(self, server: str) -> None:
        """Hold what a server has written last, if that is not held yet."""
        written = seat_state(self._run.snapshots, server)
        if not written.exists():
            return
        # Out of the way first: the server may write the next one now.
        taken = written.replace(seat_state(self._run.snapshots, f"{server}-newest"))
        version = version_of(taken)
        held = taken.replace(seat_state(self._run.snapshots, f"{server}-{version}"))
        self._held[server][version] = held
