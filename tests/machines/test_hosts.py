"""The hosts that other tests run on are what they claim to be, and do not outlive a test."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.paths import ROOT

HOLD = """
import sys, time
from pathlib import Path
from tests.machines.hosts import Hosts
with Hosts(["a", "b"], Path(sys.argv[1])) as hosts:
    print(*(hosts.run(name, ["readlink", "/proc/self/ns/net"]).stdout.strip() for name in "ab"))
    sys.stdout.flush()
    time.sleep(300)
"""


def test_a_host_shares_nothing_with_another_but_the_network(hosts, folder):
    script = "hostname; cat /tmp/mine /dev/shm/mine ~/mine; echo b > ~/mine; ls -d /proc/[0-9]*"
    hosts.run("a", ["sh", "-c", "for each in /tmp /dev/shm ~; do echo a > $each/mine; done"])
    name, *processes = hosts.run("a", ["ssh", "b", script]).stdout.split()
    assert name == "b"
    assert all(each.startswith("/proc/") for each in processes)
    assert len(processes) < 12
    assert len([each for each in hosts.left("a") if each.endswith("/mine")]) == 3
    assert len([each for each in hosts.left("b") if each.endswith("/mine")]) == 1


def test_hosts_end_with_who_made_them(hosts, folder):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    made = set(holder.stdout.readline().split())
    assert len(made) == 2
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    deadline_s = time.monotonic() + 30
    while made & namespaces():
        assert time.monotonic() < deadline_s, made & namespaces()
        time.sleep(0.05)


def namespaces() -> set[str]:
    """The networks that any process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:  # it has ended meanwhile
            continue
    return found
