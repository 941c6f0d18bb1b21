"""Linux calls that are seen by what they do."""

import os
import shutil
import subprocess
import sys

import pytest

from paceline import linux
from paceline.attempts import attempt

ORDINARY = ("setpriv", "--bounding-set", "-all,+setfcap", "--inh-caps", "-all")
HIDE = """
import sys
from pathlib import Path
from paceline import linux
secret, beside, made = map(Path, sys.argv[1:])
linux.hide([str(secret)])
made.write_text(secret.read_text() + beside.read_text())
"""


@pytest.mark.parametrize("prefix", [(), ORDINARY], ids=["as we are", "as an ordinary user"])
def test_a_hidden_file_looks_empty_to_who_hid_it_and_to_nobody_else(prefix, tmp_path):
    if attempt(lambda: linux.hide([])):
        pytest.skip("this kernel lets nobody have a mount namespace here")
    if prefix and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root, and with setpriv (Debian package util-linux), gives up rights")
    secret, beside, made = (tmp_path / name for name in ("secret", "beside", "made"))
    secret.write_text("text of its own")
    beside.write_text("seen")
    command = [*prefix, sys.executable, "-c", HIDE, secret, beside, made]
    subprocess.run(command, check=True, timeout=60)
    assert made.read_text() == "seen"
    assert made.stat().st_uid == os.geteuid()
    assert secret.read_text() == "text of its own"
