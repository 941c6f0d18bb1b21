"""Real machines through OpenSSH: the user's own keys and configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import field
from functools import cache, cached_property, partial
from typing import IO, Any, Final, final

from paceline.clusters.agents.addresses import address_for, is_loopback, no_way
from paceline.clusters.agents.fleet import Launch, Launcher
from paceline.clusters.agents.fleets import start_crew
from paceline.clusters.agents.remote import Remote
from paceline.clusters.base import Crew, Job
from paceline.clusters.placing import empty_nodes, placed
from paceline.comm.invitation import Invitation
from paceline.comm.roster import Seat
from paceline.description import Positive
from paceline.errors import NodeMissing, Problem, SpecError
from paceline.system import linux
from paceline.system.waiting import Deadline, end_of

# How long all agents together have to leave; one that still imports leaves by itself thereafter.
_LEAVING_S: Final = 3.0
_MOST_SHOWN: Final = 1000
# Exit codes: a shell that finds no such command, and ssh itself, whatever the command's would be.
_NOT_FOUND: Final = 127
_SSHS_OWN: Final = 255
# Reading a configuration takes milliseconds, unless it runs commands (`Match exec`) that wait.
_READING_S: Final = 10.0
_UNREACHED: Final = re.compile(r"cannot call the driver at .*: (timed out|\[Errno)")
# All hosts of the command that this process carries out: a run of it may need some of them only.
_listed: Final[list[str]] = []


@final
class Ssh(Remote):
    """Machines that ssh reaches, each with Paceline installed."""

    hosts: tuple[str, ...] = ()
    """Where to run, as ssh takes it: `a`, `user@b`, or a name of ~/.ssh/config. Each is a node."""
    python: str = "python3"
    """The interpreter to start on each of them, the one that Paceline is installed for."""
    pythons: dict[str, str] = field(default_factory=dict)
    """Interpreters that differ, by host."""
    cores: dict[str, Positive] = field(default_factory=dict)
    """How many cores of a host its workers share as threads, by host; unless given, all it has."""

    @property
    def name(self) -> str:
        return "ssh"

    def problems(self) -> Iterator[Problem]:
        if not self.hosts:
            yield Problem("cluster.hosts", self.hosts, "name at least one: --hosts a,b,c")
        if len(set(self.hosts)) < len(self.hosts):
            yield Problem("cluster.hosts", self.hosts, "a host is named twice")
        if any(host.startswith("-") or not host for host in self.hosts):
            yield Problem("cluster.hosts", self.hosts, "not the name of a host")
        by_host: dict[str, dict[str, Any]] = {"pythons": self.pythons, "cores": self.cores}
        for name, given in by_host.items():
            if unknown := [host for host in given if host not in self.hosts]:
                reason = f"not one of the hosts: {', '.join(unknown)}"
                yield Problem(f"cluster.{name}", given, reason, self.hosts)

    def seats(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> list[Seat]:
        nodes = [*self.by_node()]
        return placed(nodes, num_workers, num_servers, servers_apart=servers_apart)

    def by_node(self) -> dict[str, str]:
        """Give the host of each node."""
        return {f"node{index}": host for index, host in enumerate(self.hosts)}

    def host_of(self, node: str) -> str:
        return self.by_node()[node]

    def workers_meant(self, num_servers: int, *, servers_apart: bool = False) -> int | None:
        num_apart = num_servers if servers_apart else 0
        return max(1, len(self.hosts) - num_apart)

    def for_one(self) -> Ssh:
        first = self.hosts[:1]
        pythons = {host: path for host, path in self.pythons.items() if host in first}
        cores = {host: number for host, number in self.cores.items() if host in first}
        return dataclasses.replace(self, hosts=first, pythons=pythons, cores=cores)

    def group_problems(
        self, num_workers: int, num_servers: int, *, servers_apart: bool = False
    ) -> Iterator[Problem]:
        num_apart = num_servers if servers_apart else 0
        for reason in empty_nodes(len(self.hosts), num_workers, num_apart):
            yield Problem("cluster.hosts", self.hosts, reason)

    @contextlib.contextmanager
    def assembled(self) -> Iterator[bool]:
        _listed.extend(self.hosts)
        try:
            yield True
        finally:
            _listed.clear()

    def verify(self) -> None:
        if shutil.which("ssh") is None:
            reason = "there is no ssh command here: install OpenSSH's client"
            raise SpecError([Problem("cluster.name", self.name, reason)])

    def start(self, job: Job) -> Crew:
        return start_crew(
            job,
            _SshLauncher(self),
            join_s=self.join_s,
            encrypts=self.encrypt,
            interface=self.interface,
        )


@final
class _SshLauncher(Launcher):
    def __init__(self, cluster: Ssh) -> None:
        self._cluster = cluster
        self._hosts = cluster.by_node()

    def start(self, node: str, invitation: Invitation) -> Launch:
        host, python = self._hosts[node], self._python(node)
        # Modules of the folder that ssh logs in to take the place of none: see `own_command`.
        command = f"exec {shlex.quote(python)} -P -m paceline join -"
        ssh = ["ssh", *_OPTIONS, host, command]
        meaning = partial(_meaning, host, python, invitation)
        return _SshLaunch(ssh, invitation, meaning, self)

    def identity(self, node: str) -> Hashable:
        most = self.most_cores(node)
        return ("ssh", self._hosts[node], self._python(node), most, self.own_address(node))

    def most_cores(self, node: str) -> float | None:
        return self._cluster.cores.get(self._hosts[node])

    def _python(self, node: str) -> str:
        python = self._cluster.pythons.get(self._hosts[node], self._cluster.python)
        # Quoted for the shell there, a tilde is no home; and home is where ssh logs in to.
        return f"./{python[2:]}" if python.startswith("~/") else python

    @cached_property
    def leaving(self) -> Deadline:
        """By when all have to leave, from the first that is asked on."""
        return Deadline(_LEAVING_S)

    def own_address(self, node: str) -> str:
        if self._cluster.address is not None:
            return self._cluster.address
        host, *others = dict.fromkeys([self._hosts[node], *self._hosts.values(), *_listed])
        try:
            return address_for(_host_name(host), map(_host_name, others))
        except OSError as error:
            raise NodeMissing(self.label(node), no_way(error)) from error

    def label(self, node: str) -> str:
        return f"{node} ({self._hosts[node]})"


# Nobody would see a question and answer it: without a key that works it is an error.
_OPTIONS: Final = (
    *("-T", "-o", "BatchMode=yes"),
    # A host that is lost is named within 10 s; the kernel alone would try for a minute or two.
    *("-o", "ConnectTimeout=7"),
    *("-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=5"),
)


@final
class _SshLaunch(Launch):
    """A running ssh; the agent reads its invitation from its standard input."""

    def __init__(
        self,
        command: Sequence[str],
        invitation: Invitation,
        meaning: Callable[[int, str], str],
        launcher: _SshLauncher,
    ) -> None:
        self._meaning = meaning
        self._launcher = launcher
        self._failure: str | None = None
        # What a host prints when somebody logs in may be in any encoding.
        self._said: IO[str] = tempfile.TemporaryFile(  # noqa: SIM115 - it lives as long as we do
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            text=True,
            # Or one that still tries to reach its host would outlive a driver that was killed.
            preexec_fn=linux.die_with_parent,  # noqa: PLW1509
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            self._process.stdin.write(invitation.written() + "\n")
            self._process.stdin.flush()

    def failure(self) -> str | None:
        code = self._process.poll()
        if code is not None and self._failure is None:
            self._said.seek(0)
            told = self._said.read()[-_MOST_SHOWN:].strip()
            ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            self._failure = f"{self._meaning(code, told)} (ssh: {ended})" + (
                f"\n{told}" if told else ""
            )
        return self._failure

    def end_lost(self) -> None:
        self._process.kill()
        self.end()

    def end(self) -> None:
        end_of(self._process, self._launcher.leaving.left_s)
        self._said.close()


def _meaning(host: str, python: str, invitation: Invitation, code: int, told: str) -> str:
    """Say what the end of an ssh means to who asked for it."""
    if _UNREACHED.search(told):
        return _not_reached(invitation.host, invitation.port)
    if code == _NOT_FOUND:
        return f"no interpreter {python!r} there: cluster.python or cluster.pythons names another"
    if "Unknown option: -P" in told:
        return f"{python!r} there is older than Python 3.11"
    if "No module named paceline" in told:
        return f"Paceline is not installed for {python!r} there"
    if code == _SSHS_OWN and "Permission denied" in told:
        return f"it accepts none of your ssh keys: `ssh {host} true` must work without a question"
    if code == _SSHS_OWN:
        return f"ssh cannot reach it, or lost it: does `ssh {host} true` work?"
    return "its agent has ended"


def _not_reached(address: str, port: int) -> str:
    """Say why an agent may not reach the address that it was to call."""
    hint = "cluster.address names the address of this machine that leads there"
    if is_loopback(address):
        return f"it was to call {address}, where it only reaches itself: {hint}"
    return f"it does not reach {address} port {port} of this machine: a firewall? Else, {hint}"


@cache
def _host_name(host: str) -> str:
    """Ask ssh where a name of its configuration leads; raises `OSError` if it does not answer."""
    asked = ["ssh", "-G", host]
    try:
        told = subprocess.run(
            asked,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_READING_S,
        ).stdout
    except subprocess.TimeoutExpired as error:
        reason = "does ~/.ssh/config run a command that waits?"
        raise TimeoutError(
            f"`ssh -G {host}` did not end within {_READING_S:g} s: {reason}"
        ) from error
    found = [line.split(None, 1)[1] for line in told.splitlines() if line.startswith("hostname ")]
    return found[0] if found else host.rpartition("@")[2]
