"""Being a seat: whatever started this process, from a ticket and a line to an exit code."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, final

from paceline.clusters.base import Berth, entry_function
from paceline.clusters.printed import printing_to_sink
from paceline.comm.host_memory import Holdings, Host
from paceline.comm.line import Line
from paceline.comm.mailbox import Mailbox, make_mailbox
from paceline.comm.meter import Meter
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Ticket
from paceline.comm.words import Failed, Here
from paceline.errors import Aborted
from paceline.sinks.choice import sink_of
from paceline.sinks.line import LineSink
from paceline.system import linux

if TYPE_CHECKING:
    from paceline.comm.base import Channel
    from paceline.comm.credentials import Credentials
    from paceline.comm.roster import Roster

# How many files a seat may have open: strangers who connect take some until they are turned away.
_FILES: Final = 8192
_MOST_SAID: Final = 4000


def sit(
    ticket: Ticket,
    line: Line,
    *,
    holdings: Mapping[str, Holdings] | None = None,
    meter: Meter | None = None,
) -> int:
    """Be the seat that the ticket names, in this process; returns its exit code.

    `holdings` is what the seats of this node share, where a common parent made it.
    """
    driver = SeatLine(line)
    try:
        return _sit(ticket, driver, holdings, meter)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the driver must hear of it
        traceback.print_exc()
        with contextlib.suppress(Aborted):
            driver.send(Failed(f"{type(error).__name__}: {error}"[:_MOST_SAID]))
        return 1
    finally:
        driver.close()


def _sit(
    ticket: Ticket,
    driver: SeatLine,
    holdings: Mapping[str, Holdings] | None,
    meter: Meter | None,
) -> int:
    import torch

    torch.set_num_threads(ticket.orders.threads)
    linux.allow_files(_FILES)
    os.environ["GLOO_SOCKET_IFNAME"] = ticket.interface  # or it listens where the host's name leads
    door = _Door(ticket)
    driver.send(Here(pid=linux.own_pid(), address=door.mailbox.address, key=door.public_key))
    sink = sink_of(ticket, driver)
    berth = Berth(
        ticket=ticket,
        line=driver,
        sink=sink,
        open_channel=partial(door.channel, driver),
        host=None if holdings is None else Host(ticket.seat.name, holdings, driver),
        meter=meter,
    )
    prints = printing_to_sink(sink) if isinstance(sink, LineSink) else contextlib.nullcontext()
    with contextlib.closing(sink), prints:
        return _entered(berth)


def _entered(berth: Berth) -> int:
    """Do what the orders say; what goes wrong is in the log, whoever started this process."""
    try:
        return entry_function(berth.ticket.orders.entry)(berth)
    except BaseException:  # noqa: BLE001 - an entry function that lets something escape, or none
        traceback.print_exc()
        return 1


@final
class _Door:
    """Where a seat receives messages, and what it shows to others. Nobody else has its secret."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self.mailbox: Mailbox = make_mailbox(ticket.orders.medium, ticket.address, ticket.port)
        self._pair: tuple[bytes, bytes] | None = None
        if ticket.orders.encrypts:
            import zmq

            self._pair = zmq.curve_keypair()

    @property
    def public_key(self) -> str | None:
        return None if self._pair is None else self._pair[0].decode()

    def channel(self, driver: SeatLine) -> Channel:
        """Open the channel, as soon as it is known who the others are."""
        from paceline.comm.zmq import ZmqChannel

        roster, seat = driver.roster(), self._ticket.seat
        return ZmqChannel(
            seat.name,
            roster,
            bytes.fromhex(self._ticket.orders.run_key),
            driver,
            credentials=self._credentials(roster),
            listener=self.mailbox.listener.detach(),
            # A worker that rests reads nothing: a server that waited for it would answer nobody.
            waits_for_room=seat.role != "server",
            latency_s=self._ticket.orders.latency_s,
        )

    def _credentials(self, roster: Roster) -> Credentials:
        from paceline.comm.credentials import Keys, Password, keys_of

        if self._pair is None:
            return Password(self._ticket.seat.name, self._ticket.orders.password.encode())
        return Keys(*self._pair, keys_of(roster))
