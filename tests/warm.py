"""A process that has imported what commands import, and forks one whenever a test calls it.

To start Python, import the command line and, for a model of one's own, torch takes half a second or
two: for every command of a hundred tests. What a command does is the same, as is what it writes.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# polars is left out: it starts threads when it is imported, and they do not come along.
IMPORTS = """
import atexit, os, sys, threading, traceback, warnings
del sys.path[0]  # as `python -m paceline` does
with warnings.catch_warnings():
    warnings.simplefilter("error")
    import paceline.engine.driver, paceline.cli.tables, torch
    from paceline.cli.app import COMMANDS, main
    for each in COMMANDS:
        each.load()

def carry_out(arguments):
    # To take all modules apart costs more than most commands: what Python does at its end is done
    # but for that.
    sys.argv = ["paceline", *arguments]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
"""
_SERVE = f"""{IMPORTS}
import json, socket

def become(told, descriptors):
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["environment"])
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    if told["strict"]:
        warnings.simplefilter("error")

calls = socket.socket(fileno=int(sys.argv[1]))
while True:
    told, descriptors, _, _ = socket.recv_fds(calls, 1 << 20, 3)
    if not told:
        os._exit(0)
    child = os.fork()
    if child == 0:
        calls.close()
        told = json.loads(told)
        become(told, descriptors)
        carry_out(told["arguments"])
    for each in descriptors:
        os.close(each)
    calls.send(str(child).encode())
    calls.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
"""


def paceline(
    arguments: Sequence[str], cwd: Path, timeout: float, *, strict: bool
) -> subprocess.CompletedProcess[str]:
    """Carry a command out in a process of its own, to its end; `strict`: warnings are errors."""
    calls = _server()
    told = {
        "arguments": arguments,
        "cwd": str(cwd),
        "environment": {**os.environ},
        "strict": strict,
    }
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as error,
    ):
        streams = [each.fileno() for each in (nothing, out, error)]
        socket.send_fds(calls, [json.dumps(told).encode()], streams)
        code = _exit_code(calls, timeout)
        for each in (out, error):
            each.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), error.read())


def _exit_code(calls: socket.socket, timeout: float) -> int:
    child = int(calls.recv(64))
    calls.settimeout(timeout)
    try:
        return int(calls.recv(64))
    except TimeoutError:
        os.kill(child, 9)
        raise
    finally:
        calls.settimeout(None)


@cache
def _server() -> socket.socket:
    """Start it, once for all tests of this process."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", _SERVE, str(its.fileno())]
    process = subprocess.Popen(
        command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    its.close()
    atexit.register(process.wait)
    atexit.register(mine.close)
    return mine
