"""A thread that sends gradients while a worker computes, and takes the parameters that come back.

Of the chunks that wait, those of the first layers go first: the next forward pass needs their
parameters first. Few messages wait in the transport, so that one of them is not behind many.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple, final

from paceline.comm.base import Channel, Message
from paceline.strategies.parameter_server.correspondent import Correspondent
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.link import BARE, REFUSED


class _Task(NamedTuple):
    """A chunk to send, or, where there is none, the word."""

    chunk: Chunk | None
    flags: int


@final
class Courier:
    """Has the channel from the first chunk of a push until all of its reply is here.

    All else is called by the worker's thread, which may use the channel only while it is idle.
    """

    def __init__(
        self,
        channel: Channel,
        servers: Sequence[Correspondent],
        take: Callable[[Message], object],
        sent: Callable[[int], None],
        *,
        holds: bool,
        word_last: bool,
    ) -> None:
        """`take` is called with each message that comes, `sent` with the bytes of each chunk.

        `word_last`: servers apply nothing of a push before all of it is there, word and chunks.

        `holds`: parameters that come while the worker still back-propagates are kept aside until
        it has ended; it may still look at those that it has.
        """
        self._channel = channel
        self._servers = servers
        self._take = take
        self._sent = sent
        self._holds = holds
        self._word_last = word_last
        self._held: list[Message] = []
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        # By server, chunks that wait to be sent: index and flags, first layers first.
        self._ready: list[list[tuple[int, int]]] = [[] for _ in servers]
        self._untold: list[Correspondent] = []
        self._word: int | None = None
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self.is_idle = True
        self.has_push = False
        """Whether chunks were sent whose word was not."""
        self._thread: threading.Thread | None = None

    def send(self, chunk: Chunk, flags: int) -> None:
        """Have a chunk sent; it must not change before the push is decided."""
        if not self.has_push:
            self._begin()
        self._tasks.put(_Task(chunk, flags))
        self._channel.wake()

    def finish(self, flags: int) -> None:
        """Have the word sent, and wait until all servers have decided."""
        self.has_push = False
        self._tasks.put(_Task(None, flags))
        self._channel.wake()
        self._await(lambda: all(server.is_decided for server in self._servers))

    def _begin(self) -> None:
        self.drain()
        self.has_push = True
        for server in self._servers:
            server.begin()
        self.is_idle = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="courier", daemon=True)
            self._thread.start()

    def await_chunks(self, chunks: Collection[Chunk]) -> int:
        """Wait until the parameters of these are here; returns when the last one came."""
        servers = self._servers
        if not self.is_idle:
            self._await(lambda: all(e.index not in servers[e.server].unanswered for e in chunks))
        return max((servers[each.server].came_ns[each.index] for each in chunks), default=0)

    def drain(self) -> None:
        """Wait until all of the reply is here."""
        if not self.is_idle:
            self._await(lambda: self.is_idle)

    def _await(self, is_so: Callable[[], bool]) -> None:
        """Wait for the thread; what ends it ends this too."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or is_so())
            if self._error is not None:
                raise self._error

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                self._word, self._untold = None, []
                self._note(task)
                self._carry()
                with self._changed:
                    self.is_idle = True
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _carry(self) -> None:
        """Send and receive until the push is answered."""
        while self._word is None or not all(server.is_done for server in self._servers):
            self._note_more()
            blocked = self._send_what_may_go()
            # What was held back until the word may be all that comes: of an update that is void.
            if self._word is None or not self._held:
                message = self._channel.listen(blocked)
                if message is not None:
                    self._held.append(message)
            if self._word is not None or not self._holds:
                self._take_held()
        for ready in self._ready:  # of a push that came too late, or is refused
            ready.clear()

    def _take_held(self) -> None:
        """Let the worker have what has come."""
        if self._held:
            with self._changed:
                for message in self._held:
                    self._take(message)
                self._changed.notify_all()
            self._held.clear()

    def _note_more(self) -> None:
        with suppress(Empty):
            while (task := self._tasks.get_nowait()) is not None:
                self._note(task)

    def _note(self, task: _Task) -> None:
        if task.chunk is None:
            self._word, self._untold = task.flags, list(self._servers)
        else:
            heapq.heappush(self._ready[task.chunk.server], (task.chunk.index, task.flags))

    def _send_what_may_go(self) -> list[str]:
        """Send until there is no room; returns to whom there is none."""
        blocked = set() if self._word_last else self._tell()
        for server, ready in zip(self._servers, self._ready, strict=True):
            if server.name not in blocked and not self._send_chunks(server, ready):
                blocked.add(server.name)
        return list(blocked | self._tell(blocked) if self._word_last else blocked)

    def _tell(self, blocked: Collection[str] = ()) -> set[str]:
        """Send the word to whom there is room; returns the others that wait for it."""
        if self._word is not None:
            self._untold = [
                each for each in self._untold if each.name in blocked or not self._send_word(each)
            ]
        return {each.name for each in self._untold}

    def _send_word(self, server: Correspondent) -> bool:
        assert self._word is not None
        return self._channel.offer(server.name, server.nothing, server.word(self._word))

    def _send_chunks(self, server: Correspondent, ready: list[tuple[int, int]]) -> bool:
        while ready and not (self._word or 0) & REFUSED:
            index, flags = ready[0]
            parcel = server.nothing if flags & BARE else server.parcels[index]
            if not self._channel.offer(server.name, parcel, server.tag(index, flags)):
                return False
            heapq.heappop(ready)
            self._sent(parcel.values.nbytes)
        return True

    def close(self) -> None:
        """End the thread, unless it waits for a server that is gone: it ends with the process."""
        self._tasks.put(None)
