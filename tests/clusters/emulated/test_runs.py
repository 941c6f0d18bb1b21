"""Runs on emulated nodes, as a user starts them."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from paceline.clusters.emulated.caps import Caps
from paceline.clusters.emulated.network import try_out
from paceline.system.attempts import attempt
from paceline.testing.leftovers import Witness
from tests.clusters.test_nothing_left import is_training, wait_until
from tests.commands import QUICK, last_json, paceline, start

# To the kernel this is an ordinary user, though one who owns root's files.
ORDINARY = ("setpriv", "--bounding-set", "-all,+setfcap", "--inh-caps", "-all")
LINKED = ("--cluster", "emulated", "--link", "200mbit")


def run(cwd, *options, **more) -> dict:
    command = ("run", "logistic-mnist", *QUICK, *LINKED, *options, "--json")
    done = paceline(*command, cwd=cwd, **more)
    assert done.returncode == 0, done.stderr
    return last_json(done)


@pytest.mark.parametrize(
    ("strategy", "tolerance"),
    [
        ("ring", 0.05),
        pytest.param("ps-sync", 0.03, marks=pytest.mark.thorough),
        pytest.param("ddp", 0.08, marks=pytest.mark.thorough),
    ],
)
def test_payload_is_what_the_closed_form_says(strategy, tolerance, tmp_path):
    """Of small messages headers are a part; on a busy machine TCP also sends some twice."""
    result = run(tmp_path, "--strategy", strategy, "--workers", 3, "--worker-steps", 100)
    assert {node["network_counted_by"] for node in result["nodes"]} == {"qdisc"}
    assert [node["link_bits_per_s"] for node in result["nodes"]] == [2e8] * 3
    laws = result["traffic"]["nodes"]
    assert len(laws) == 3
    for law in laws:
        assert law["sent_ratio"] == pytest.approx(1, abs=tolerance)
        assert law["received_ratio"] == pytest.approx(1, abs=tolerance)
    senders = {pair["sender"] for pair in result["traffic"]["pairs"]}
    assert senders == (set() if strategy == "ddp" else {"node0", "node1", "node2"})


def test_an_ordinary_user_has_nodes_too_and_messages_can_be_encrypted(tmp_path):
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv (Debian package util-linux) is needed to give up capabilities")
    prefix = ORDINARY if os.geteuid() == 0 else ()
    options = ("--strategy", "ps-async", "--workers", 3, "--worker-steps", 50)
    result = run(tmp_path, *options, "--set", "cluster.encrypt=true", prefix=prefix)
    assert result["status"] == "finished"
    assert len(result["traffic"]["nodes"]) == 3


def test_without_netem_messages_are_held_and_the_result_says_so(tmp_path):
    if attempt(lambda: try_out(0.005)) == "":
        pytest.skip("this kernel has netem")
    options = ("--strategy", "ring", "--workers", 2, "--worker-steps", 20, "--latency", "20ms")
    result = run(tmp_path, *options)
    assert result["status"] == "finished"
    assert any("held for 20 ms" in each for each in result["warnings"])
    # Two messages, one waiting for the other, in each exchange.
    assert all(each["exchange_s"] > 20 * 2 * 0.020 for each in result["workers"])


def test_what_cannot_be_held_is_refused_before_anything_starts(tmp_path):
    if attempt(lambda: try_out(0.005)) == "":
        pytest.skip("this kernel has netem")
    options = ("--strategy", "ddp", "--workers", 2, "--latency", "5ms")
    done = paceline("run", "logistic-mnist", *QUICK, *LINKED, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "sch_netem" in done.stderr
    assert "ddp has connections of its own" in " ".join(done.stderr.split())
    assert not (tmp_path / "runs").exists()


def test_kill_9_leaves_no_process_namespace_interface_or_cgroup(tmp_path):
    witness = Witness()
    driver = start(
        "run", "logistic-mnist", *QUICK, *LINKED, "--strategy", "ring", "--workers", 2,
        "--seconds", 300, "--set", "cluster.cpus=0.9",
        cwd=tmp_path, env=witness.environment,
    )  # fmt: skip
    try:
        wait_until(lambda: is_training(tmp_path), patience_s=90)
        probe = Caps({"node0": 0.5}, "probe")
        probe.remove()
        witness.look()
        assert len(witness.namespaces) >= 3
        assert len(witness.cgroups) == (0 if probe.refused else 2)
    finally:
        driver.kill()
        driver.communicate()
    wait_until(lambda: not witness.processes() and not witness.left_cgroups())
    assert witness.left_namespaces() == set()
    assert witness.new_interfaces() == set()


def test_kill_9_while_slow_links_are_measured_leaves_nothing_either(tmp_path):
    witness = Witness()
    driver = start(
        "run", "logistic-mnist", *QUICK, "--cluster", "emulated", "--link", "100kbit",
        "--strategy", "solo", "--workers", 6,  # 40 s of measuring at the least
        cwd=tmp_path, env=witness.environment,
    )  # fmt: skip
    try:
        wait_until(lambda: any(map(is_keeper_at_its_bridge, witness.processes())), patience_s=90)
    finally:
        driver.kill()
        driver.communicate()
    wait_until(lambda: not witness.processes(), patience_s=15)


def is_keeper_at_its_bridge(pid: int) -> bool:
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):  # it ended meanwhile
        is_keeper = b"paceline.clusters.zygote" in (process / "cmdline").read_bytes()
        own = Path("/proc/self/ns/net").readlink()
        return is_keeper and (process / "ns/net").readlink() != own
    return False
