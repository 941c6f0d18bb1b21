"""Whether this machine stood still: a host may pause a virtual one, for seconds or minutes.

Nothing that promises to be noticed in a second is, then, and what follows says nothing about it. A
process of its own looks, since threads of this one also wait for Python's lock.
"""

import os
import select
import subprocess
import sys
import time
from typing import Final

# A process that only sleeps is woken within milliseconds, also on a machine that is fully loaded.
LATE_S: Final = 0.7
_LOOK_S: Final = 0.1
_LOOKS: Final = f"""
import os, time
before = time.monotonic()
os.write(1, b"\\n")
while os.getppid() == {{parent}}:
    time.sleep({_LOOK_S})
    now = time.monotonic()
    if now - before > {_LOOK_S + LATE_S}:
        os.write(1, b"%.2f\\n" % (now - before))
    before = now
"""


class Standstills:
    """Moments at which the machine stood still, as a process beside this one sees them."""

    def __init__(self) -> None:
        looks = _LOOKS.format(parent=os.getpid())
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", looks], stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it looks from now on

    def newest(self) -> list[float]:
        """How long each lasted that is not forgotten, in seconds."""
        time.sleep(5 * _LOOK_S)  # the process that looks may be the next to be woken
        return [float(each) for each in self.forget().split()]

    def forget(self) -> bytes:
        """Forget those until now, and give what was said of them."""
        assert self._process.stdout is not None
        said = b""
        while select.select([self._process.stdout], [], [], 0)[0]:
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                break
            said += part
        return said

    def close(self) -> None:
        """End it."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
