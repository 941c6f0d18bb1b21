"""What the examination finds on this machine, whichever it is, and that it leaves no trace."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from paceline.measure import machine, trials
from paceline.measure.machine import Finding, examine, missing_required
from paceline.system import attempts
from paceline.system.cores import cpu_cgroups
from paceline.system.linux import own_pid


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in examine()}


def test_what_is_required_is_here(findings: dict[str, Finding]):
    assert findings.keys() >= machine.REQUIRED
    assert missing_required(list(findings.values())) == []


def test_everything_that_is_not_well_has_a_remedy(findings: dict[str, Finding]):
    assert [each.name for each in findings.values() if not each.ok and not each.remedy] == []
    assert [each.name for each in findings.values() if each.ok and each.remedy] == []
    assert all(each.value for each in findings.values())


def test_torch_says_its_version(findings: dict[str, Finding]):
    import torch

    assert findings["torch"].value.startswith(torch.__version__)


def test_nothing_is_left_behind():
    def traces() -> tuple[object, ...]:
        links = sorted(path.name for path in Path("/sys/class/net").iterdir())
        groups = [list(group.glob(f"paceline-doctor-{os.getpid()}-*")) for group in cpu_cgroups()]
        namespaces = [Path(f"/proc/self/ns/{kind}").readlink() for kind in ("net", "pid", "user")]
        num_descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
        children = Path(f"/proc/self/task/{own_pid()}/children").read_text()  # dead ones too
        return links, groups, namespaces, _lo_queue(), num_descriptors, children

    before = traces()
    examine()
    assert traces() == before


def _lo_queue() -> str:
    if shutil.which("tc") is None:
        return ""
    told = subprocess.run(
        ("tc", "qdisc", "show", "dev", "lo"), check=True, capture_output=True, text=True
    )
    return told.stdout


def test_network_namespaces_agree_with_the_unshare_command(findings: dict[str, Finding]):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare command to compare with")
    as_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    done = subprocess.run(("unshare", *as_user, "--net", "true"), check=False, capture_output=True)
    assert findings["network namespaces"].ok == (done.returncode == 0)


def test_what_the_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    trial = partial(trials.try_queue, "nosuchqueue")
    monkeypatch.setattr(machine, "TRIALS", (("shaping (tbf)", trial, "sch_tbf"),))
    (finding,) = machine._shaping()
    assert finding.ok is False
    assert "sch_tbf" in finding.remedy


def test_a_trial_that_raises_tells_why():
    def fail() -> None:
        raise OSError("no such thing here")

    assert attempts.attempt(fail) == "no such thing here"
    assert attempts.attempt(lambda: None) == ""


def test_an_error_of_netlink_is_told_in_its_words():
    def fail() -> None:
        raise NetlinkError(2, "No such file or directory")

    assert attempts.attempt(fail) == "No such file or directory"


def test_a_trial_that_dies_is_told_and_not_waited_for():
    began_s = time.monotonic()
    assert "-9" in attempts.attempt(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert time.monotonic() - began_s < attempts.ATTEMPT_TIMEOUT_S


def test_a_trial_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts, "ATTEMPT_TIMEOUT_S", 1)
    assert f"-{signal.SIGALRM.value}" in attempts.attempt(signal.pause)


def test_only_what_is_required_counts_as_missing():
    findings = [Finding("torch", False, "no", "install"), Finding("GPU", None, "none", "buy")]
    assert missing_required(findings) == findings[:1]


def test_torch_that_cannot_be_imported_is_told(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('broken on purpose')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "from paceline.measure import machine; print(machine._torch())"
    )
    done = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True)
    assert "ok=False" in done.stdout
    assert "broken on purpose" in done.stdout
    assert "pip install torch" in done.stdout


def test_a_deleted_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert machine._disk().ok is False


def test_importing_the_module_does_not_import_torch():
    code = "import sys, paceline.measure.machine; sys.exit('torch' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0


def test_nothing_is_recommended_that_paceline_would_not_use(findings: dict[str, Finding]):
    assert "ray" not in findings
    assert findings["GPU"].remedy == "nothing: Paceline trains on the CPU only"
