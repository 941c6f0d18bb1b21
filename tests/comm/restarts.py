"""The seats of a run in one process, of which some are started again."""

from collections.abc import Iterable, Mapping

import zmq

from paceline.comm.credentials import Credentials, Keys, Password
from paceline.comm.mailbox import make_mailbox
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.words import Members
from paceline.comm.zmq import ZmqChannel
from paceline.seats import parsed
from tests.comm.credentials import WORD
from tests.comm.lines import line_of_a_seat

RUN = b"sixteen bytes!!!"


class Run:
    """Each with a channel, and the driver's end of its line."""

    def __init__(
        self,
        names: Iterable[str],
        *,
        encrypt: bool = False,
        nodes: Mapping[str, str] | None = None,
        latency_s: float = 0.0,
    ) -> None:
        self.encrypt = encrypt
        self._latency_s = latency_s
        self._nodes = nodes or {}
        self.roster = Roster(())
        self.drivers, self.lines, self.channels = {}, {}, {}
        self._opened = []
        made = {name: self._prepare(name, 0) for name in names}
        for name, prepared in made.items():
            self._open(name, *prepared)

    def _prepare(self, name: str, incarnation: int) -> tuple[int, tuple[bytes, bytes] | None]:
        """Bind a mailbox of its own, make its own keys, and put both down in the roster."""
        mailbox = make_mailbox("tcp", "127.0.0.1")
        pair = zmq.curve_keypair() if self.encrypt else None
        sitting = Sitting(
            seat=Seat(*parsed(name), self._nodes.get(name, "node0")),
            incarnation=incarnation,
            address=mailbox.address,
            key=pair[0].decode() if pair else None,
        )
        self.roster = self.roster.with_sitting(sitting)
        return mailbox.listener.detach(), pair

    def _open(self, name: str, listener: int, pair: tuple[bytes, bytes] | None) -> None:
        self.drivers[name], line = line_of_a_seat()
        self.lines[name] = line
        shown: Credentials = Keys(*pair, {}) if pair else Password(name, WORD)
        self.channels[name] = ZmqChannel(
            name,
            self.roster,
            RUN,
            line,
            credentials=shown.following(self.roster),
            listener=listener,
            latency_s=self._latency_s,
        )
        self._opened += [self.channels[name], self.drivers[name], line]

    def __getitem__(self, name: str) -> ZmqChannel:
        return self.channels[name]

    def tell(self, *names: str) -> None:
        """Send the roster; each takes note of it at its next look."""
        for name in names:
            self.drivers[name].send(Members(self.roster))

    def end(self, name: str) -> None:
        self.channels[name].close()

    def start_again(self, name: str, incarnation: int = 1) -> ZmqChannel:
        self._open(name, *self._prepare(name, incarnation))
        return self.channels[name]

    def close(self) -> None:
        for each in self._opened:
            each.close()
