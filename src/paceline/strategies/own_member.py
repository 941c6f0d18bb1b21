"""Where the processes of a script's own group meet, and how it is noticed that one is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final, final
from urllib.parse import urlsplit

import torch.distributed as dist

from paceline.comm.vigil import Vigil
from paceline.errors import PeerLost
from paceline.strategies.all_reduce.meeting import hanging_up
from paceline.strategies.base import Member, Place
from paceline.strategies.torch_store import torch_store
from paceline.system.descriptors import descriptors
from paceline.system.tcp_counts import TcpCounts
from paceline.training.state import State, StateReader, attributes

# For how long a worker whose script has ended keeps its connections: the others may still read.
_LINGER: Final = timedelta(seconds=2)
_ENDED: Final = "paceline/ended/"
_CLOSING: Final = "paceline/closing/"


@final
class OwnMember(Member):
    """Has torch's store ready before the script runs, as torchrun does, and watches the others.

    The store listens already when its port is said, so nothing else can take the port.
    """

    alike: ClassVar[tuple[str, ...]] = ()

    def __init__(self, place: Place) -> None:
        self.replica = place.replica
        self.global_steps: int = 0
        self._place = place
        self._channel = place.channel
        before = set(descriptors())
        self._store: Any = torch_store(place)
        self._vigil = Vigil(place.channel, hanging_up(before))
        # Of these two others still hear something, when this worker's script has ended.
        addresses = place.roster.addresses.values()
        ports = [urlsplit(each).port or 0 for each in addresses if each.startswith("tcp:")]
        self._leave_group = hanging_up(before, spared=(self._store.port, *ports))
        self._sent = TcpCounts()
        self._wait_s: float | None = None
        self._late_s: float | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What torchrun would have set for this worker."""
        roster, own = self._place.roster, self._place.name
        nodes = [*dict.fromkeys(roster.worker_nodes.values())]
        node = roster.node_of(own)
        beside = [name for name, each in roster.worker_nodes.items() if each == node]
        return {
            "RANK": str(self._place.rank),
            "WORLD_SIZE": str(self._place.num_workers),
            "LOCAL_RANK": str(beside.index(own)),
            "LOCAL_WORLD_SIZE": str(len(beside)),
            "GROUP_RANK": str(nodes.index(node)),
            "GROUP_WORLD_SIZE": str(len(nodes)),
            "ROLE_NAME": "default",
            "ROLE_RANK": str(self._place.rank),
            "ROLE_WORLD_SIZE": str(self._place.num_workers),
            "MASTER_ADDR": self._store.host,
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_RUN_ID": "paceline",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }

    def exchange(self, *, last: bool) -> bool:
        self.global_steps += 1
        return last

    def agree_to_end(self, num_steps: int, *, said: bool) -> int | None:
        """Say that this worker wishes to end; returns after which step, once all have wished it.

        All have made the last step of whoever wished last, or are in the one after it: none
        can have passed the step that is returned.
        """
        if not said:
            self._store.set(f"{_CLOSING}{self._place.rank}", str(num_steps))
        keys = [f"{_CLOSING}{each}" for each in self._place.roster.worker_numbers]
        if not self._store.check(keys):
            return None
        return max(int(self._store.get(key)) for key in keys) + 1

    def end(self, num_steps: int, exchanged_s: float) -> None:
        """The script has ended: let go of its group, as the end of its process would."""
        keys = [f"{_ENDED}{each}" for each in self._place.roster.worker_numbers]
        try:
            self._store.set(f"{_ENDED}{self._place.rank}", f"{num_steps} {exchanged_s}")
            self._store.wait(keys, _LINGER)
            # Whoever comes last to what all do together waits least.
            told = [float(self._store.get(key).split()[1]) for key in keys]
            self._wait_s, self._late_s = exchanged_s - min(told), max(told) - exchanged_s
        except RuntimeError:  # others go on, and may wait for this one; or one is gone
            self.note_sent()
            self._leave_group()
        self.note_sent()
        if dist.is_initialized():
            dist.destroy_process_group()

    def ended(self) -> dict[str, int]:
        """Say whose scripts have ended, and after how many steps."""
        found = {}
        with contextlib.suppress(RuntimeError):
            for rank, name in enumerate(self._place.roster.workers):
                if self._store.check([f"{_ENDED}{rank}"]):
                    found[name] = int(self._store.get(f"{_ENDED}{rank}").split()[0])
        return found

    def start_counting(self) -> None:
        """Count from here on what goes to other nodes."""
        self._sent.begin()

    def note_sent(self) -> None:
        """Look at the connections that there are, before some of them are closed."""
        self._sent.look()

    def counted(self) -> Mapping[str, Any]:
        """Give what it waited; what was sent to whom is added to what the channel counts.

        It applies nothing by itself: the script's optimizer steps are computing.
        """
        by_address = self._sent.by_peer()
        for name, address in reversed(self._place.roster.addresses.items()):
            if name in self._place.roster.workers and name != self._place.name:
                host = urlsplit(address).hostname or ""
                num_bytes = by_address.pop(host, 0)
                if num_bytes:
                    self._channel.sent_to[name] += num_bytes
        return {"apply_s": 0.0, "wait_s": self._wait_s, "late_s": self._late_s}

    def is_lost_peer(self, error: Exception) -> bool:
        text = str(error).lower()
        return isinstance(error, dist.DistError) or (
            isinstance(error, RuntimeError) and ("gloo" in text or "connection" in text)
        )

    def lost_peer(self) -> PeerLost | None:
        return self._vigil.lost

    def state(self) -> State:
        return attributes(self, "global_steps")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "global_steps")

    def adopt(self, state: State) -> None:
        self.load(state)

    def close(self) -> None:
        self._vigil.close()
        if dist.is_initialized():
            dist.destroy_process_group()
        self._store = None  # it listens for as long as it is there
