"""The part of rank 0: it drives, and reaches the other nodes through torchrun's store."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Hashable, Mapping
from typing import Final, final

from paceline.clusters.agents.addresses import address_for
from paceline.clusters.agents.fleet import Launch, Launcher
from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.clusters.agents.torchrun import words
from paceline.clusters.agents.torchrun.place import RankPlace, node_of
from paceline.clusters.agents.torchrun.store import Store
from paceline.clusters.agents.torchrun.words import PULSE, Hello, StoreWord
from paceline.comm.invitation import Invitation
from paceline.errors import NodeMissing, RunError
from paceline.system.interpreter import own_command
from paceline.system.waiting import Deadline, end_of, time_left

_LEAVING_S: Final = 5.0
_TICK_S: Final = 0.05


@final
class Assembly:
    """All nodes that torchrun has brought together, as the driver's process sees them."""

    def __init__(self, place: RankPlace, seal: Seal, patience_s: float) -> None:
        """Start to reach them; does not wait."""
        self.place = place
        self._seal = seal
        self._patience_s = patience_s
        self._store = Store(place, patience_s)
        self._hellos: dict[int, Hello] = {}
        self._num_said: dict[int, int] = {}
        self._lost: set[int] = set()

    @property
    def hellos(self) -> Mapping[int, Hello]:
        """What each of the other nodes has said of itself, by rank."""
        return self._hellos

    def gather(self) -> None:
        """Wait for all nodes; raises `NodeMissing` of one that is late or has another secret."""
        self._store.beat(PULSE)
        deadline = Deadline(self._patience_s)
        for rank in range(1, self.place.num_nodes):
            data = self._store.wait(words.hello_key(rank), deadline.left_s)
            if data is None:
                reason = (
                    f"said nothing within {self._patience_s:g} s: torchrun's output there says why"
                )
                raise NodeMissing(f"{node_of(rank)} (rank {rank})", reason)
            self._welcome(rank, data)

    def _welcome(self, rank: int, data: bytes) -> None:
        """Answer a hello. One that cannot be opened is answered too: its node then knows why."""
        try:
            self._hellos[rank] = words.unproven_hello(data)
            self.say(rank, StoreWord(kind="welcome", host=socket.gethostname()))
            self._hellos[rank] = words.opened_hello(data, self._seal, rank)
        except SecretDiffers:
            reason = "its run secret is not the driver's: the same must be given on every machine"
            raise NodeMissing(self.label(rank), reason) from None

    def label(self, rank: int) -> str:
        """Name a node by its host, as far as it is known."""
        if rank == self.place.rank:
            return f"{node_of(rank)} ({socket.gethostname()})"
        hello = self._hellos.get(rank)
        return f"{node_of(rank)} ({hello.host if hello else f'rank {rank}'})"

    def say(self, rank: int, word: StoreWord) -> None:
        """Leave a word for a node; it reads them in order."""
        index = self._num_said.get(rank, 0)
        key = words.word_key(rank, self._hellos[rank].number, index)
        self._store.put(key, words.sealed_word(word, self._seal, rank, key))
        self._num_said[rank] = index + 1

    def failure(self, rank: int) -> str | None:
        """Give why a node cannot go on, if it has said so; does not wait, though the store may."""
        keys = {each: words.failure_key(each, said.number) for each, said in self._hellos.items()}
        key = keys[rank]
        data = self._store.glance(words.FAILED, [*keys.values()]).get(key)
        if data is None:
            return None
        try:
            return words.opened_word(data, self._seal, rank, key).reason
        except SecretDiffers:
            return None  # somebody else wrote it

    def give_up(self, rank: int) -> None:
        """A node is lost: how it ends is not waited for."""
        self._lost.add(rank)

    def end(self, code: int, reason: str) -> None:
        """Tell all nodes how it ended, and wait, for a while, until they have left."""
        with self._store, contextlib.suppress(RunError):
            for rank in self._hellos:
                self.say(
                    rank, StoreWord(kind="end", host=socket.gethostname(), code=code, reason=reason)
                )
            waited_for = {words.hello_key(rank) for rank in self._hellos.keys() - self._lost}
            for _ in time_left(_LEAVING_S):
                waited_for = {key for key in waited_for if self._store.look(key) is not None}
                if not waited_for:
                    break
                time.sleep(_TICK_S)


@final
class TorchrunLauncher(Launcher):
    """Hands nodes their invitations through the store, and starts the agent of this one itself."""

    def __init__(self, assembly: Assembly, address: str | None) -> None:
        self._assembly = assembly
        self._address = address

    def start(self, node: str, invitation: Invitation) -> Launch:
        rank = _rank_of(node)
        if rank == self._assembly.place.rank:
            return _OwnAgent(invitation)
        self._assembly.say(rank, StoreWord(kind="serve", invitation=invitation.written()))
        return _OtherAgent(self._assembly, rank)

    def own_address(self, node: str) -> str:
        """Give the address that leads to the node; for this one's own agent, as to the first other.

        Other nodes call the seats of this one where its agent called. A node that keeps the store
        may know of itself only that it reaches that through its loopback device.
        """
        if self._address is not None:
            return self._address
        hellos = dict(self._assembly.hellos)
        own = hellos.pop(_rank_of(node), None)
        told = [*([] if own is None else [own]), *hellos.values()]
        if not told:
            return "127.0.0.1"
        try:
            others = [at for each in told for at in (each.host, each.address)]
            return address_for(told[0].address, others)
        except OSError as error:
            raise NodeMissing(
                self.label(node), f"no way leads there from here: {error.strerror}"
            ) from error

    def label(self, node: str) -> str:
        return self._assembly.label(_rank_of(node))

    def identity(self, node: str) -> Hashable:
        return ("torchrun", node, self._address)


def _rank_of(node: str) -> int:
    return int(node.removeprefix("node"))


@final
class _OtherAgent(Launch):
    def __init__(self, assembly: Assembly, rank: int) -> None:
        self._assembly, self._rank = assembly, rank

    def failure(self) -> str | None:
        return self._assembly.failure(self._rank)

    def end(self) -> None:
        """Leave it alone: it ends with its line, and its node says so when all is over."""

    def end_lost(self) -> None:
        self._assembly.give_up(self._rank)


@final
class _OwnAgent(Launch):
    """A process of its own: the driver has threads, and an agent forks."""

    def __init__(self, invitation: Invitation) -> None:
        command = own_command("paceline", "join", "-")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            assert self._process.stdin is not None
            self._process.stdin.write(f"{invitation.written()}\n".encode())
            self._process.stdin.close()

    def failure(self) -> str | None:
        code = self._process.poll()
        return None if code is None else f"its agent ended with exit code {code}"

    def end(self) -> None:
        end_of(self._process, _LEAVING_S)
