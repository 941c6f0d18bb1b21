"""A process knows where it listens, also where its numbers are not those of /proc."""

import socket
import subprocess
import sys

from paceline.system.listeners import own_listeners


def test_what_listens_is_named_until_it_is_closed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert at in own_listeners()
    assert at not in own_listeners()


def test_of_ipv6_too():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert f"tcp://[::1]:{server.getsockname()[1]}" in own_listeners()


SCRIPT = """
import os, socket
from paceline.system import linux
from paceline.system.listeners import own_listeners
try:
    linux.unshare(linux.CLONE_NEWPID)
except OSError:
    pass
if pid := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
server = socket.create_server(("127.0.0.1", 0))
assert own_listeners() == [f"tcp://127.0.0.1:{server.getsockname()[1]}"]
"""


def test_in_a_pid_namespace_that_does_not_have_a_proc_of_its_own():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
