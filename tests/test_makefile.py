"""Where `make` installs torch from."""

import shutil
import subprocess

import pytest

from tests.paths import ROOT

ENVIRONMENTS = (".venv", ".venv-peers", ".venv-ray-train")
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.mark.parametrize("target", [f"{each}/.installed" for each in ENVIRONMENTS])
@pytest.mark.parametrize("index", ["", "https://torch.example/cpu"])
def test_torch_comes_from_the_index_that_is_given_and_nothing_else_does(target, index):
    command = ["make", "--dry-run", "--always-make", target, f"TORCH_INDEX={index}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [line for line in printed.splitlines() if " install " in line]
    torch = [line for line in installs if "grep '^torch=='" in line]
    assert len(torch) == 1
    assert (f"--index-url {index} " in torch[0]) is bool(index)
    assert len(installs) > 1
    assert not any("--index-url" in line for line in installs if line not in torch)
