"""`paceline join`: be a node of a run that is driven from elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from paceline.errors import Problem, RunError, SpecError

# How long an invitation may take to come: whoever was to send it may be gone without a word.
_PATIENCE_S: Final = 60


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
        float, typer.Option(metavar="S", help="How long to wait for the driver, in seconds.")
    ] = 300.0,
) -> None:
    """Be a node of somebody's run, and serve its driver until it is over.

    By hand, with --cluster manual: type it on every machine of the list. The secret of the run is
    in the file that PACELINE_SECRET_FILE names, or in PACELINE_SECRET.
    """
    if driver == "-" or Path(driver).is_file():
        _serve_invited(_first_line() if driver == "-" else Path(driver).read_text())
    else:
        _serve_by_hand(driver, as_, wait)


def _serve_invited(text: str) -> None:
    from paceline.clusters.agents.agent import serve
    from paceline.comm.invitation import Invitation
    from paceline.comm.line import LineClosed

    try:
        serve(Invitation.read(text))
    except (ValueError, LineClosed) as error:
        raise RunError(str(error)) from error


def _serve_by_hand(driver: str, name: str | None, wait_s: float) -> None:
    from paceline.clusters.agents.manual.joining import serve_by_hand
    from paceline.clusters.agents.manual.meeting import PORT, WHY, split_address
    from paceline.clusters.agents.secret import take_secret

    try:
        host, port = split_address(driver)
    except ValueError as error:
        raise SpecError([Problem("DRIVER", driver, str(error))]) from error
    secret = take_secret(os.environ, WHY)
    serve_by_hand(secret, host, port or PORT, name, wait_s)


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
