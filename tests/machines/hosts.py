"""Machines for tests: hosts that share nothing but the network between them, each with an sshd.

    with Hosts(["a", "b", "c"], folder) as hosts:
        hosts.run("a", ["ssh", "b", "hostname"])

A host has an address, a name, processes, a home, /tmp, /dev/shm and /run of its own. The rest of
the file system is the machine's, as if it were installed on each. ssh on every host knows the
others by name, with keys made for the test; nobody's own keys or configuration are seen or touched.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from paceline.system.waiting import time_left
from tests.paths import ROOT

_PATIENCE_S: Final = 30.0
_COMMAND_S: Final = 120.0
_OWN: Final = ("/tmp", "/dev/shm", "/run")
_OTHERS: Final = ("/torchinductor_", "/.cache")
_PROGRAMS: Final = ("ssh", "ssh-keygen", "nsenter", "setpriv", "unshare")
NOWHERE: Final = "nowhere"
"""A name that ssh knows and nothing answers to."""
REFUSED: Final = "refused"
"""The first host, with a key that it does not accept."""


def why_not() -> str | None:
    """Say why hosts cannot be made here, if so."""
    if os.geteuid() != 0:
        return "only root can make hosts that an sshd runs on"
    missing = [each for each in (*_PROGRAMS, "sshd") if _found(each) is None]
    if missing:
        return f"{', '.join(missing)} is needed (Debian packages openssh-server, util-linux)"
    made = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"cannot create namespaces here: {made.stderr.strip()}" if made.returncode else None


def _found(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _is_of_others(process: str) -> bool:
    return process.startswith(("sshd: ", "ray::IDLE")) or "/default_worker.py" in process


class Hosts:
    """Hosts for as long as the block lasts, and no longer than this process."""

    def __init__(self, names: Sequence[str], folder: Path, bits_per_s: float = 1e9) -> None:
        """`folder` is seen by all of them, for what the test looks at afterwards."""
        self.names = [*names]
        self.folder = folder
        self._bits_per_s = bits_per_s
        self._home = pwd.getpwuid(os.geteuid()).pw_dir

    def __enter__(self) -> Self:
        self._write_keys()
        asked = {
            "hosts": self.names,
            "bits_per_s": self._bits_per_s,
            "keeps": self._kept(),
            "home": self._home,
            "commands": {name: [self._sshd(name)] for name in self.names},
        }
        command = [sys.executable, "-m", "tests.machines.hosts_process", json.dumps(asked)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self._made: dict[str, dict[str, Any]] = self._heard()
            self._write_addresses()
            self._await_sshd()
        except BaseException:
            self.__exit__()
            raise
        self.take_for_granted()
        return self

    def take_for_granted(self) -> None:
        """Have all that is there now count as there from the start: `left` does not name it."""
        self._always = {name: self._pids(name).keys() for name in self.names}
        self._files_before = {name: self._files(name) for name in self.names}

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(
        self, name: str, command: Sequence[object], cwd: Path | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Carry out a command on a host, to its end."""
        return subprocess.run(
            self._inside(name, command, cwd),
            capture_output=True,
            text=True,
            check=False,
            **({"timeout": _COMMAND_S} | options),
        )

    def start(
        self, name: str, command: Sequence[object], cwd: Path | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command on a host, and leave it running. Killed, it takes the command with it."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self._inside(name, command, cwd), **(streams | options))

    def _inside(self, name: str, command: Sequence[object], cwd: Path | None) -> list[str]:
        entering = ["nsenter", "--target", str(self._made[name]["pid"])]
        entering += ["--net", "--uts", "--pid", "--mount", "--"]
        tied = ["setpriv", "--pdeathsig", "KILL"]  # nsenter is its parent, and stays outside
        return [*entering, *tied, "env", f"--chdir={cwd or self.folder}", *map(str, command)]

    def know_names(self, own: str | None = None) -> None:
        """Have each find the others by name, as programs look for them that are not ssh.

        `own` is what a host's own name stands for on it, if not its address.
        """
        for name in self.names:
            known = {each: self.address(each) for each in self.names}
            known |= {} if own is None else {name: own}
            file = self.folder / f"names-{name}"
            lines = [f"{at} {each}\n" for each, at in known.items()]
            file.write_text("127.0.0.1 localhost\n" + "".join(lines))
            done = self.run(name, ["mount", "--no-mtab", "--bind", file, "/etc/hosts"])
            assert done.returncode == 0, done.stderr

    def pid(self, name: str) -> int:
        """Give the number, here, of a host's first process."""
        return int(self._made[name]["pid"])

    def address(self, name: str) -> str:
        return self._made[name]["address"]

    def kill(self, name: str) -> None:
        """End a host as a power failure does: no word of it leaves the host."""
        self.cut(name)
        os.kill(self._made[name]["pid"], signal.SIGKILL)

    def cut(self, name: str) -> None:
        """Have a host's link be down, for good."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        assert self._heard() == "cut"

    def kill_process(self, name: str, pid: int) -> None:
        """Kill one process of a host, by its number there."""
        self.run(name, ["kill", "-9", pid], cwd=Path("/"))

    @staticmethod
    def send(started: subprocess.Popen[str], number: int) -> None:
        """Send a signal to a command that `start` has started."""
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), number)

    def processes(self, name: str) -> dict[int, str]:
        """Give the processes of a host that were not there when it was made."""
        own = self._always[name]
        return {pid: text for pid, text in self._pids(name).items() if pid not in own}

    def left(self, name: str) -> list[str]:
        """Say what somebody has left on a host: processes, and files in its own folders.

        How long sshd keeps a session whose client is gone is for sshd to say; torch makes an empty
        folder for its compiler wherever its own DDP is used, and figures are drawn with a cache of
        fonts.
        """
        made = self._files(name) - self._files_before[name]
        files = [each for each in made if not any(other in each for other in _OTHERS)]
        texts = self.processes(name).values()
        return [*(each for each in texts if not _is_of_others(each)), *sorted(files)]

    def _files(self, name: str) -> set[str]:
        folders = [self._root(name).joinpath(each[1:]) for each in (*_OWN, self._home)]
        return {str(path) for folder in folders for path in folder.glob("*")}

    def _root(self, name: str) -> Path:
        return Path(f"/proc/{self._made[name]['pid']}/root")

    def _pids(self, name: str) -> dict[int, str]:
        """Read the process list of a host from its own /proc."""
        found = {}
        for folder in self._root(name).glob("proc/[0-9]*"):
            try:
                text = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                text = text or folder.joinpath("comm").read_text().strip()
            except OSError:  # it has ended meanwhile
                continue
            found[int(folder.name)] = text
        return found

    def _kept(self) -> list[str]:
        """What all must see though it lies below a folder that hosts have of their own."""
        needed = {str(self.folder), str(ROOT), sys.prefix, sys.base_prefix}
        own = (*_OWN, self._home)
        return sorted(each for each in needed if any(Path(each).is_relative_to(top) for top in own))

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the hosts could not be made: see standard error"
        return json.loads(line)

    def _write_keys(self) -> None:
        (self.folder / "ssh").mkdir(parents=True, mode=0o700)
        for name in ("user", "stranger", *(f"host_{each}" for each in self.names)):
            key = str(self.folder / "ssh" / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)

    def know_only_names(self, own: str) -> None:
        """Have ssh too find the hosts by what their names stand for."""
        self.know_names(own)
        self._write_addresses(has_addresses=False)

    def _write_addresses(self, *, has_addresses: bool = True) -> None:
        """Have ssh know every host by its name."""
        ssh = self.folder / "ssh"
        made = {name: self.address(name) for name in self.names}
        nowhere = made[self.names[-1]].rpartition(".")[0] + ".250"
        known = [
            f"{name},{at} {(ssh / f'host_{name}.pub').read_text()}" for name, at in made.items()
        ]
        (ssh / "known").write_text("".join(known))
        entries = [f"Host {name}\n  HostName {at}\n" for name, at in made.items()]
        entries = [
            *(entries if has_addresses else []),
            f"Host {NOWHERE}\n  HostName {nowhere}\n",
            f"Host {REFUSED}\n  HostName {made[self.names[0]]}\n  IdentityFile {ssh}/stranger\n",
            f"Host * !{REFUSED}\n  IdentityFile {ssh}/user\n",
            f"Host *\n  IdentitiesOnly yes\n  UserKnownHostsFile {ssh}/known\n",
            "  StrictHostKeyChecking yes\n",
        ]
        (ssh / "config").write_text("".join(entries))

    def _sshd(self, name: str) -> list[str]:
        ssh = self.folder / "ssh"
        (ssh / f"sshd_{name}").write_text(
            f"HostKey {ssh}/host_{name}\nAuthorizedKeysFile {ssh}/user.pub\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n"
        )
        script = (
            f"mkdir -p /run/sshd && ln -s {ssh} {self._home}/.ssh && "
            f"exec {_found('sshd')} -D -e -f {ssh}/sshd_{name} 2>{self._log(name)}"
        )
        return ["/bin/sh", "-c", script]

    def _log(self, name: str) -> Path:
        return self.folder / "ssh" / f"log_{name}"

    def _await_sshd(self) -> None:
        for _ in time_left(_PATIENCE_S):
            logs = [each for each in map(self._log, self.names) if each.exists()]
            told = [each.read_text() for each in logs]
            if len([each for each in told if "listening" in each]) == len(self.names):
                return
            time.sleep(0.02)
        raise AssertionError(f"no sshd answers: {told}")
