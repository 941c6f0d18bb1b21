"""The keeper: forks the seats of a run, and sees to it that none outlives it.

It is forked itself, by a zygote that has imported torch, and holds a line to the driver and nothing
else. When the driver ends, however it ends, the line reads end-of-file and the keeper kills the
seats. Where the kernel allows, the keeper is init of a PID namespace, so that its own death, and a
seat's stray children, are the kernel's business.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from paceline.clusters.luggage import Unpacked, Unwelcome
from paceline.clusters.minding import DUMP, Minder, end_all, wake_on_child
from paceline.clusters.printed import print_to_file
from paceline.clusters.seat_lines import InheritedLines, InvitedLines, SeatLines
from paceline.clusters.site import Site, Surroundings, at_interface, reached_at, site_of
from paceline.clusters.sitting import sit
from paceline.comm.host_memory import Holdings, close_holdings, make_holdings
from paceline.comm.keeper_words import (
    Again,
    Built,
    Cannot,
    Carry,
    Cut,
    KeeperReady,
    KeepSeats,
    Seated,
)
from paceline.comm.line import Line, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Seat
from paceline.comm.ticket import Ticket
from paceline.store.runs import RunDir
from paceline.system import linux
from paceline.system.interfaces import faster_than

if TYPE_CHECKING:  # TLS takes a while to import, and a keeper of this machine needs none
    from paceline.comm.tcp_line import TcpLine

# How often it is looked whether the driver is gone while nodes are made.
_LOOK_S: Final = 0.2
# How long the driver has to say what to do, once it was called.
_PATIENCE_S: Final = 60.0


@final
@dataclass(frozen=True)
class _Stock:
    """What is there before the seats are forked, and which they inherit."""

    lines: SeatLines
    holdings: Mapping[str, Holdings] | None
    site: Site | None
    node: Surroundings
    """Where the keeper itself is."""

    def holdings_of(self, names: Sequence[str]) -> Mapping[str, Holdings] | None:
        """Keep what the seats of a node share, and close the rest: nodes share no memory."""
        if self.holdings is None:
            return None
        others = self.holdings.keys() - set(names)
        close_holdings({name: self.holdings[name] for name in others})
        return {name: self.holdings[name] for name in names}

    def let_go(self) -> _Stock:
        """Let go of what only the first to sit inherit; gives what later ones find."""
        self.lines.close()
        close_holdings(self.holdings)
        return replace(self, lines=InheritedLines({}), holdings=None)

    def cut(self, word: Cut) -> None:
        if self.site is not None:
            self.site.cut(word.node, is_down=word.is_down)


def keep(line: PairLine) -> None:
    """Keep one run, as the driver says on the line, from its start to its end."""
    with contextlib.suppress(LineClosed):  # the driver was stopped before it could say so
        line.send(KeeperReady(os.getpid()))
        word, descriptors = line.take_over()
        assert isinstance(word, KeepSeats)
        names = [seat.name for seat in word.seats]
        ends = dict(
            zip([each for each in names if each not in word.late], descriptors, strict=True)
        )
        _keep(line, word, InheritedLines(ends), Surroundings())


def keep_called(line: TcpLine) -> None:
    """Keep the seats of one run on this node, as the driver says, who was called on the line."""
    with contextlib.suppress(LineClosed):
        off = line.offset
        line.send(KeeperReady(os.getpid(), off.seconds, off.uncertainty_s))
        luggage = Unpacked()
        try:
            job = _unpacked(line, luggage)
            if job is not None:
                assert job.invitations is not None
                lines = InvitedLines(job.invitations)
                job = replace(job, invitations=None)  # each seat is to find its own only
                _keep(line, job, lines, _surroundings(line, job), luggage)
        except (Unwelcome, OSError) as error:
            line.send(Cannot(f"on host {socket.gethostname()}: {error}"))
        finally:
            luggage.remove()


def _surroundings(line: TcpLine, job: KeepSeats) -> Surroundings:
    """Find the address and the interface to use on this node; tell of an interface that is faster.

    Unless one was chosen, they are those that lead to the driver.
    """
    leading = line.own_address()
    if job.interface is not None:
        return at_interface(job.interface, leading)
    found = reached_at(leading)
    if faster := faster_than(found.interface):
        advice = "cluster.interface chooses another"
        warning = f"{job.label}: {faster}, which leads to the driver; {advice}"
        line.send(Built(links=[], warnings=[warning], is_capped=True))
    return found


def _unpacked(line: Line, luggage: Unpacked) -> KeepSeats | None:
    """Take the user's files that come first, and lay them out; None if no word follows."""
    while isinstance(word := line.receive(_PATIENCE_S), Carry):
        luggage.take(word)
    if not isinstance(word, KeepSeats):
        return None
    luggage.lay_out()
    return word


def _keep(
    line: Line,
    job: KeepSeats,
    lines: SeatLines,
    node: Surroundings,
    luggage: Unpacked | None = None,
) -> None:
    linux.name_process("pace-keeper")
    threads = str(job.orders.threads)
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    site = None if job.site is None else site_of(job.site, job.plan or {})
    _become_init(lines, site, luggage)
    if site is not None and not _build(site, line):
        _remove(site)
        return
    assert threading.active_count() == 1, "a thread does not survive a fork"
    linux.keep_freed_memory()
    wakeup = wake_on_child()
    signal.signal(DUMP, signal.SIG_IGN)  # until a seat can answer it
    names = [seat.name for seat in job.seats]
    stock = _Stock(lines, make_holdings(names) if job.shares_memory else None, site, node)
    seats = {seat.name: seat for seat in job.seats}

    def begin(word: Again, end: int) -> int:
        found = replace(later, lines=InheritedLines({word.seat: end}))
        try:
            return _fork(job, seats[word.seat], line, found, word.incarnation)
        finally:
            found.lines.close()

    minder = Minder(line, begin=begin, cut=stock.cut, most_stopped_s=job.orders.detect_s)
    for seat in job.seats:
        if seat.name not in job.late:
            minder.add(_fork(job, seat, line, stock), seat.name)
    later = stock.let_go()
    with contextlib.suppress(LineClosed):
        line.send(Seated())
        minder.mind(wakeup)
    end_all(minder.pids)
    if site is not None:
        _remove(site)


def _build(site: Site, line: Line) -> bool:
    """Make the nodes, and tell the driver what they are like; False if there is no going on.

    The driver may have been stopped meanwhile. Then nobody wants to hear anything of it.
    """
    try:
        with _ends_with(line):  # slow links take minutes to measure
            built = site.build()
        line.send(built)
    except LineClosed:
        return False
    except Exception as error:  # noqa: BLE001 - pyroute2 has errors of its own
        with contextlib.suppress(LineClosed):
            line.send(Cannot(str(error) or type(error).__name__))
        return False
    return True


@contextlib.contextmanager
def _ends_with(line: Line) -> Iterator[None]:
    """Raise `LineClosed` in the middle of whatever is done here once the driver is gone."""

    def look(*_: object) -> None:
        line.receive(timeout_s=0)  # it says nothing meanwhile: only its end can be heard

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _remove(site: Site) -> None:
    """Remove what nodes leave, unless the process outside of our PID namespace does."""
    if os.getpid() != 1:
        site.remove()


def _become_init(lines: SeatLines, site: Site | None, luggage: Unpacked | None) -> None:
    """Continue as the first process of a PID namespace, where that is allowed."""
    try:
        linux.unshare(linux.CLONE_NEWPID)
    except OSError:
        linux.adopt_orphans()
        return
    child = os.fork()
    if child:
        lines.close()
        _, status = os.waitpid(child, 0)
        if site is not None:
            site.remove()  # the kernel has ended everyone inside
        if luggage is not None:
            luggage.remove()
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    linux.die_with_parent()


def _fork(job: KeepSeats, seat: Seat, line: Line, stock: _Stock, incarnation: int = 0) -> int:
    """Fork one seat; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        linux.die_with_parent()
        linux.name_process(f"pace-{seat.name}")
        line.forsake()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _write_to_log(job, seat)
        code = _sit(job, seat, stock, incarnation)
    except BaseException:  # noqa: BLE001 - it has no line to say so: its log is all there is
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _write_to_log(job: KeepSeats, seat: Seat) -> None:
    """Print into the log, for seats that see the run's folder; others send what they print."""
    if job.orders.folder is not None:
        print_to_file(RunDir(Path(job.orders.folder)).seat_log(seat.name))


def _sit(job: KeepSeats, seat: Seat, stock: _Stock, incarnation: int) -> int:
    """Be the seat, on its node."""
    found = stock.node if stock.site is None else stock.site.enter(seat.node)
    line = stock.lines.take(seat.name)
    names = [each.name for each in job.seats if each.node == seat.node]
    ticket = Ticket(
        orders=job.orders,
        seat=seat,
        incarnation=incarnation,
        address=found.address,
        port=job.ports.get(seat.name, 0),
        interface=found.interface,
        label=job.label,
    )
    return sit(ticket, line, holdings=stock.holdings_of(names), meter=found.meter)
