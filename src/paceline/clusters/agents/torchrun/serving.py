"""The part of all other ranks: be a node, until the driver says how the run ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Final, final

from paceline.clusters.agents.addresses import address_towards
from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.clusters.agents.torchrun import words
from paceline.clusters.agents.torchrun.place import RankPlace
from paceline.clusters.agents.torchrun.store import Store
from paceline.clusters.agents.torchrun.words import PULSE, StoreWord
from paceline.comm.invitation import Invitation
from paceline.errors import RunError
from paceline.system.interpreter import own_command

_MOST_TOLD: Final = 4096


def serve_driver(place: RankPlace, seal: Seal, patience_s: float) -> None:
    """Serve all runs that the driver has; raises `RunError`, with its exit code, if they failed."""
    with Store(place, patience_s) as store:
        node = _Node(place, seal, store)
        try:
            node.attend(patience_s)
        finally:
            node.leave()


@final
class _Node:
    def __init__(self, place: RankPlace, seal: Seal, store: Store) -> None:
        self._place, self._seal, self._store = place, seal, store
        self._hello = words.new_hello(address_towards(place.store_host))
        self._num_heard = 0
        self._driver = place.store_host
        self._agent = _Agent()

    def attend(self, patience_s: float) -> None:
        sealed = words.sealed_hello(self._hello, self._seal, self._place.rank)
        self._store.put(words.hello_key(self._place.rank), sealed)
        word = self._heard(patience_s)
        self._driver = word.host or self._driver
        self._place.announce(f"the run is driven from {word.host}, and kept there")
        while word.kind != "end":
            if word.kind == "serve":
                self._serve(Invitation.read(word.invitation))
            word = self._heard(None)
        if word.code:
            failed = RunError(f"the run on {self._driver} ended: {word.reason}")
            failed.exit_code = word.code
            raise failed

    def leave(self) -> None:
        """Take back the hello, by which the driver sees that nothing is left here."""
        self._agent.end()
        with contextlib.suppress(RunError):
            self._store.drop(words.hello_key(self._place.rank))

    def _heard(self, patience_s: float | None) -> StoreWord:
        """Wait for the driver's next word: the first one for so long, others while it is there."""
        rank = self._place.rank
        key = words.word_key(rank, self._hello.number, self._num_heard)
        data = self._store.wait(key, patience_s, None if self._num_heard == 0 else PULSE)
        if data is None:
            reason = f"rank 0, on {self._driver}, has said nothing within {patience_s:g} s"
            raise RunError(f"{reason}: its output says why")
        self._num_heard += 1
        try:
            return words.opened_word(data, self._seal, rank, key)
        except SecretDiffers:
            raise RunError(
                f"the run secret of {self._hello.host} is not that of rank 0, on {self._driver}: "
                "the same must be given on every machine"
            ) from None

    def _serve(self, invitation: Invitation) -> None:
        why = self._agent.serve(invitation)
        if why is None:
            self._agent.end()
            self._agent = _Agent()
            return
        key = words.failure_key(self._place.rank, self._hello.number)
        said = StoreWord(kind="end", host=self._hello.host, code=1, reason=why)
        self._store.put(key, words.sealed_word(said, self._seal, self._place.rank, key))
        self._store.put(words.FAILED, b"1")
        raise RunError(why)


@final
class _Agent:
    """The agent, as a program of its own: it finds no secret in its memory, nor do its seats.

    It imports torch while the driver has nothing for it yet.
    """

    def __init__(self) -> None:
        self._told = os.memfd_create("why")
        command = own_command("paceline.clusters.agents.torchrun.agent_process", str(self._told))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(self._told,))

    def serve(self, invitation: Invitation) -> str | None:
        """Have it serve a driver, to its end; gives why it failed, if it did."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            self._process.stdin.write(f"{invitation.written()}\n".encode())
            self._process.stdin.close()
        code = self._process.wait()
        why = os.pread(self._told, _MOST_TOLD, 0).decode(errors="replace")
        return (why or f"its agent ended with exit code {code}") if code else None

    def end(self) -> None:
        """Have it end at once, if it is still there."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        os.close(self._told)
