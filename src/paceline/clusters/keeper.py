"""The keeper: forks the seats of a run, and sees to it that none outlives it.

It is forked itself, by a zygote that has imported torch, and holds a line to the driver and nothing
else. When the driver ends, however it ends, the line reads end-of-file and the keeper kills the
seats. Where the kernel allows, the keeper is init of a PID namespace, so that its own death, and a
seat's stray children, are the kernel's business.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from paceline import linux
from paceline.clusters.base import Berth, Seat, entry_function
from paceline.clusters.emulated.site import Site
from paceline.comm.credentials import Credentials, Password, make_password
from paceline.comm.introductions import Introductions
from paceline.comm.line import Line, LineClosed, Message, SeatLine
from paceline.comm.mailbox import Mailbox, keep_only, make_mailboxes
from paceline.comm.shared import Holdings, Host, close_holdings, make_holdings

Table = dict[str, Any]

# Has a seat write its stack to its log. Not one of those that libraries or users like to take.
_DUMP: Final = signal.SIGRTMAX - 3
# How long a seat may be stopped, and how often that is looked at while one is.
_MOST_STOPPED_S: Final = 3.0
_LOOK_S: Final = 0.2
# How many files a seat may have open: strangers who connect take some until they are turned away.
_FILES: Final = 8192


@final
@dataclass(frozen=True)
class _Stock:
    """What is made before the seats are forked, and which they inherit."""

    holdings: Mapping[str, Holdings] | None
    mailboxes: Mapping[str, Mailbox]
    password: bytes
    introductions: Introductions | None
    """How seats learn each other's keys, where messages are encrypted."""
    site: Site | None

    @staticmethod
    def of(job: Table, site: Site | None) -> _Stock:
        names = [_name_of(table) for table in job["seats"]]
        transport = job["transport"]
        if site is not None:
            boxes = {_name_of(table): site.mailbox(table["node"]) for table in job["seats"]}
        else:
            boxes = make_mailboxes(names, "tcp" if transport == "zmq-tcp" else "unix")
        return _Stock(
            make_holdings(names) if transport == "shared" or site is not None else None,
            boxes,
            make_password(),
            Introductions(names) if job["encrypt"] else None,
            site,
        )

    def credentials_of(self, seat: str, line: SeatLine) -> Callable[[], Credentials]:
        """What a seat shows to others, as soon as it knows them. Called in the seat."""
        if self.introductions is None:
            return partial(Password, seat, self.password)
        return self.introductions.introduce(seat, line)

    def keep_of(self, node: str, job: Table) -> Mapping[str, Holdings] | None:
        """Keep what the seats of a node share, and close the rest: nodes share no memory."""
        if self.holdings is None:
            return None
        names = {_name_of(table) for table in job["seats"] if table["node"] == node}
        close_holdings({name: self.holdings[name] for name in self.holdings.keys() - names})
        return {name: self.holdings[name] for name in names}

    def close(self) -> None:
        close_holdings(self.holdings)
        keep_only("", self.mailboxes)
        if self.site is not None:
            self.site.network.close()


def _name_of(table: Table) -> str:
    return f"{table['role']}{table['index']}"


def keep(line: Line) -> None:
    """Keep one run, as the driver says on the line, from its start to its end."""
    linux.name_process("pace-keeper")
    job = _job(line)
    if job is None:
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(job["threads"]))
    site = Site(job["nodes"], job["mark"]) if job["nodes"] else None
    _become_init(job, site)
    if site is not None and not _build(site, job, line):
        _remove_caps(site)
        return
    assert threading.active_count() == 1, "a thread does not survive a fork"
    linux.keep_freed_memory()
    wakeup = _wake_on_child()
    signal.signal(_DUMP, signal.SIG_IGN)  # until a seat can answer it
    names = [_name_of(table) for table in job["seats"]]
    stock = _Stock.of(job, site)
    pids = [_fork(job, table, line, stock) for table in job["seats"]]
    sitting = dict(zip(pids, names, strict=True))
    _close_lines(job)
    if stock.introductions is not None:
        stock.introductions.lead()
    stock.close()
    with contextlib.suppress(LineClosed):
        line.send("seated")
        _watch(line, wakeup, sitting)
    _end(list(sitting))
    if site is not None:
        _remove_caps(site)


def _job(line: Line) -> Table | None:
    """Hear what to do; None if the driver was stopped before it could say so."""
    try:
        line.send("kept", pid=os.getpid())
        message, descriptors = line.take_over()
    except LineClosed:
        return None
    job: Table = message["job"]
    for table, descriptor in zip(job["seats"], descriptors, strict=True):
        table["line"] = descriptor
    return job


def _build(site: Site, job: Table, line: Line) -> bool:
    """Make the nodes, and tell the driver what they are like; False if there is no going on.

    The driver may have been stopped meanwhile. Then nobody wants to hear anything of it.
    """
    try:
        with _ends_with(line):  # slow links take minutes to measure
            built = site.build(job["dilation"])
        line.send("built", **built)
    except LineClosed:
        return False
    except Exception as error:  # noqa: BLE001 - pyroute2 has errors of its own
        with contextlib.suppress(LineClosed):
            line.send("cannot", reason=str(error) or type(error).__name__)
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


def _remove_caps(site: Site) -> None:
    """Remove the nodes' cgroups, unless the process outside of our PID namespace does."""
    if os.getpid() != 1:
        site.caps.remove()


def _become_init(job: Table, site: Site | None) -> None:
    """Continue as the first process of a PID namespace, where that is allowed."""
    try:
        linux.unshare(linux.CLONE_NEWPID)
    except OSError:
        linux.adopt_orphans()
        return
    child = os.fork()
    if child:
        _close_lines(job)
        _, status = os.waitpid(child, 0)
        if site is not None:
            site.caps.remove()  # the kernel has ended everyone inside
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    linux.die_with_parent()


def _close_lines(job: Table) -> None:
    """Only a seat itself may hold its line, or its end would go unnoticed."""
    for table in job["seats"]:
        os.close(table["line"])


def _wake_on_child() -> socket.socket:
    """Make a socket that becomes readable when a child has ended."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    reader.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    writer.detach()
    return reader


def _watch(line: Line, wakeup: socket.socket, sitting: dict[int, str]) -> None:
    """Tell the driver of each seat that ends, until it is gone; dump stacks where it asks."""
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        stopped: dict[int, float] = {}
        while True:
            _reap(line, sitting, stopped)
            _end_stopped(line, sitting, stopped)
            for key, _ in selector.select(_LOOK_S if stopped else None):
                if key.fileobj is wakeup:
                    wakeup.recv(4096)
                else:
                    _ask_for_stack(line.receive(timeout_s=0), sitting)


def _ask_for_stack(message: Message | None, sitting: dict[int, str]) -> None:
    for pid, name in sitting.items():
        if message is not None and message.get("seat") == name:
            os.kill(pid, _DUMP)


def _reap(line: Line, sitting: dict[int, str], stopped: dict[int, float]) -> None:
    """Tell of seats that have ended; note which have been stopped, and which go on."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            stopped[pid] = time.monotonic()
            continue
        stopped.pop(pid, None)
        if pid in sitting and not os.WIFCONTINUED(status):
            line.send("left", seat=sitting.pop(pid), reason=_reason(status))


def _end_stopped(line: Line, sitting: dict[int, str], stopped: dict[int, float]) -> None:
    """A seat that stays stopped is as good as dead: the others wait for it."""
    for pid, since_s in list(stopped.items()):
        if time.monotonic() - since_s < _MOST_STOPPED_S:
            continue
        del stopped[pid]
        if pid in sitting:
            os.kill(pid, signal.SIGKILL)
            reason = f"stopped (SIGSTOP) for more than {_MOST_STOPPED_S:g} s"
            line.send("left", seat=sitting.pop(pid), reason=reason)


def _reason(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exit code {code}" if code else ""


def _end(pids: list[int]) -> None:
    """Kill the seats and their strays."""
    if os.getpid() == 1:
        return  # when init of a PID namespace ends, the kernel kills everyone in it
    for pid in {*pids, *_children()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Orphans of those just killed are handed to us, and are next.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
            for stray in _children():
                os.kill(stray, signal.SIGKILL)


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{linux.own_pid()}/children").read_text()
    return [int(pid) for pid in text.split()]


def _fork(job: Table, table: Table, line: Line, stock: _Stock) -> int:
    """Fork one seat; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        linux.die_with_parent()
        linux.name_process(f"pace-{_name_of(table)}")
        line.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _write_to_log(table["log"])
        code = _sit(job, table, stock)
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _write_to_log(path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(_DUMP)


def _sit(job: Table, table: Table, stock: _Stock) -> int:
    """Be the seat: learn who we are, then do what the job says."""
    import torch

    for other in job["seats"]:
        if other is not table:
            os.close(other["line"])
    torch.set_num_threads(job["threads"])
    linux.allow_files(_FILES)
    meter, address, interface = None, "127.0.0.1", "lo"
    if stock.site is not None:
        address = stock.site.address(table["node"])
        meter = stock.site.enter(table["node"])
        interface = stock.site.interface
    os.environ["GLOO_SOCKET_IFNAME"] = interface  # or it listens where the host's name leads
    seat = Seat(table["role"], table["index"], table["node"])
    line = SeatLine(Line(socket.socket(fileno=table["line"])))
    credentials = stock.credentials_of(seat.name, line)
    holdings, mailboxes = stock.keep_of(table["node"], job), stock.mailboxes
    keep_only(seat.name, mailboxes)
    addresses = {name: each.address for name, each in mailboxes.items()}

    def open_channel() -> Any:
        from paceline.comm.zmq import ZmqChannel

        return ZmqChannel(
            seat.name,
            addresses,
            bytes.fromhex(job["run_key"]),
            line,
            credentials=credentials(),
            listener=mailboxes[seat.name].listener.detach(),
            # A worker that rests reads nothing: a server that waited for it would answer nobody.
            waits_for_room=seat.role != "server",
        )

    berth = Berth(
        seat=seat,
        run_dir=Path(job["run_dir"]),
        line=line,
        open_channel=open_channel,
        host=None if holdings is None else Host(seat.name, holdings, line),
        address=address,
        meter=meter,
    )
    return entry_function(job["entry"])(berth)
