"""The part of all other ranks: be a node, until the driver says how the run ended."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from typing import Final, final

from paceline.clusters.agents.agent import serve
from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.clusters.agents.ssh import address_towards
from paceline.clusters.agents.torchrun import words
from paceline.clusters.agents.torchrun.place import Place
from paceline.clusters.agents.torchrun.store import Store
from paceline.clusters.agents.torchrun.words import PULSE, Word
from paceline.comm.invitation import Invitation
from paceline.comm.line import LineClosed
from paceline.errors import RunError
from paceline.system import linux

_MOST_TOLD: Final = 4096


def serve_driver(place: Place, seal: Seal, patience_s: float) -> None:
    """Serve all runs that the driver has; raises `RunError`, with its exit code, if they failed."""
    with Store(place, patience_s) as store:
        with contextlib.suppress(ImportError):  # a seat will say so
            importlib.import_module("torch")  # once for all runs, while others are waited for
        node = _Node(place, seal, store)
        try:
            node.attend(patience_s)
        finally:
            node.leave()


@final
class _Node:
    def __init__(self, place: Place, seal: Seal, store: Store) -> None:
        self._place, self._seal, self._store = place, seal, store
        self._hello = words.new_hello(address_towards(place.store_host))
        self._num_heard = 0
        self._driver = place.store_host

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
        with contextlib.suppress(RunError):
            self._store.drop(words.hello_key(self._place.rank))

    def _heard(self, patience_s: float | None) -> Word:
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
        why = _serve_apart(invitation)
        if why is None:
            return
        key = words.failure_key(self._place.rank, self._hello.number)
        said = Word(kind="end", host=self._hello.host, code=1, reason=why)
        self._store.put(key, words.sealed_word(said, self._seal, self._place.rank, key))
        raise RunError(why)


def _serve_apart(invitation: Invitation) -> str | None:
    """Be the agent in a process of its own, to its end; gives why it failed, if it did."""
    told = os.memfd_create("why")
    try:
        pid = os.fork()
        if not pid:
            _be_agent(invitation, told)
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        why = os.pread(told, _MOST_TOLD, 0).decode(errors="replace")
        code = os.waitstatus_to_exitcode(status)
        return (why or f"its agent ended with exit code {code}") if code else None
    finally:
        os.close(told)


def _be_agent(invitation: Invitation, told: int) -> None:
    code = 1
    try:
        linux.die_with_parent()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        serve(invitation)
        code = 0
    except LineClosed as error:
        os.write(told, str(error).encode()[:_MOST_TOLD])
    except BaseException:  # noqa: BLE001 - or it would go on as a second node
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
