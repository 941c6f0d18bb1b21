"""`paceline join`: be a node of a run that is driven from elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from paceline.errors import Problem, RunError, SpecError

if TYPE_CHECKING:
    from paceline.comm.tcp_line import TcpLine

# How long an invitation may take to come: whoever was to send it may be gone without a word.
_PATIENCE_S: Final = 60
# How long a driver is waited for by somebody who typed this.
_WAIT_S: Final = 300.0


def join(
    driver: Annotated[
        str,
        typer.Argument(
            metavar="DRIVER",
            help="Where the driver listens, HOST or HOST:PORT; or the file with an invitation, - "
            "for standard input.",
        ),
    ],
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="HOST",
            help="What the driver's list calls this machine; default: its address that leads to "
            "the driver.",
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="How long to wait for the driver, in seconds; default: 300, and with an "
            "invitation not at all.",
        ),
    ] = None,
) -> None:
    """Be a node of somebody's run, and serve its driver until it is over.

    By hand, with --cluster manual: type it on every machine of the list. The secret of the run is
    in the file that PACELINE_SECRET_FILE names, or in PACELINE_SECRET.
    """
    if driver != "-" and not Path(driver).is_file():
        _join_by_hand(driver, as_, _WAIT_S if wait is None else wait)
    else:
        _serve(driver, wait)


def _join_by_hand(driver: str, name: str | None, wait_s: float) -> NoReturn:
    from paceline.clusters.agents.manual.joining import go_on_invited, invited
    from paceline.clusters.agents.manual.meeting import PORT, WHY, split_address
    from paceline.clusters.agents.secret import take_secret

    try:
        host, port = split_address(driver)
    except ValueError as error:
        raise SpecError([Problem("DRIVER", driver, str(error))]) from error
    secret = take_secret(os.environ, WHY)
    go_on_invited(invited(secret, host, port or PORT, name, wait_s), wait_s)


def _serve(source: str, wait_s: float | None) -> None:
    from paceline.clusters.agents.agent import serve
    from paceline.clusters.agents.manual.joining import tell
    from paceline.clusters.agents.nursery import Nursery

    with Nursery() as nursery:  # before there is an invitation, which what it forks is not to find
        serve(_line(source, wait_s), nursery)
    if wait_s is not None:
        tell("the run is over")


def _line(source: str, wait_s: float | None) -> TcpLine:
    """Call as the invitation says."""
    from paceline.clusters.agents.agent import called
    from paceline.clusters.agents.manual.joining import called_at_last
    from paceline.comm.invitation import Invitation
    from paceline.comm.line import LineClosed

    try:
        invitation = Invitation.read(_first_line() if source == "-" else Path(source).read_text())
        return called(invitation) if wait_s is None else called_at_last(invitation, wait_s)
    except (ValueError, LineClosed) as error:
        raise RunError(str(error)) from error


def _first_line() -> str:
    def give_up(*_: object) -> NoReturn:
        raise RunError(f"no invitation came on standard input within {_PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_PATIENCE_S)
    try:
        line = sys.stdin.readline()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if not line:
        raise RunError("standard input ended without an invitation: whoever was to send it is gone")
    return line
