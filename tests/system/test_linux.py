"""Linux calls that are seen by what they do."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from paceline.system import linux
from paceline.system.attempts import attempt

NOBODY = 65534
# Who gives up being root may not change its own /proc files unless it lets itself be looked at.
HIDE = """
import ctypes, os, sys
from pathlib import Path
from paceline.system import linux
user, secret, beside, made = int(sys.argv[1]), *map(Path, sys.argv[2:])
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
linux.hide([str(secret)])
made.write_text(secret.read_text() + beside.read_text())
"""


@pytest.fixture
def folder():
    """A folder that every user may write in; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="paceline-test-") as path:
        Path(path).chmod(0o777)
        yield Path(path)


@pytest.mark.parametrize("user", [os.geteuid(), NOBODY], ids=["as we are", "as an ordinary user"])
def test_a_hidden_file_looks_empty_to_who_hid_it_and_to_nobody_else(user, folder):
    if attempt(lambda: linux.hide([])):
        pytest.skip("cannot create a mount namespace here")
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    secret, beside, made = (folder / name for name in ("secret", "beside", "made"))
    secret.write_text("text of its own")
    beside.write_text("seen")
    command = [sys.executable, "-c", HIDE, str(user), secret, beside, made]
    subprocess.run(command, check=True, timeout=60)
    assert made.read_text() == "seen"
    assert made.stat().st_uid == user
    assert secret.read_text() == "text of its own"
