"""Bottlenecks that were really put there: a shaped link, a capped server."""

from __future__ import annotations

import dataclasses

import pytest

import paceline
from paceline.clusters.emulated.network import try_out
from paceline.spec import RunSpec
from paceline.system.attempts import attempt
from paceline.testing.workloads import Burdened
from paceline.verdict import judge


@pytest.fixture(autouse=True, scope="module")
def _needs_namespaces():
    refused = attempt(lambda: try_out(0.0))
    if refused:
        pytest.skip(f"cannot create network namespaces here: {refused}")


def run(tmp_path, strategy: dict, cluster: dict, num_bytes: int = 200_000):
    spec = RunSpec.from_table(
        {
            "workload": Burdened(bytes=num_bytes, compute_ms=1.0),
            "strategy": strategy,
            "cluster": {"name": "emulated", **cluster},
            "num_workers": 2,
            "worker_steps": 5,
            "eval_samples": 8,
            "record": {"tensorboard": False, "model": False},
        }
    )
    return paceline.run(spec, out=tmp_path)


class TestLink:
    def test_the_node_whose_link_was_slowed_is_named(self, tmp_path):
        made = run(tmp_path, {"name": "ring"}, {"links": {"node1": "4mbit"}})
        # Other tests may fill the machine, and a verdict would then be about them.
        verdict = judge(dataclasses.replace(made, host_cpu_percent=None))
        assert verdict is not None
        assert (verdict.kind, verdict.where) == ("link", "node1")
        assert verdict.suggestion is not None


class TestServer:
    def test_a_server_whose_cores_are_capped_is_busy(self, tmp_path):
        apart = {"name": "ps-sync", "placement": "separate"}
        made = run(tmp_path, apart, {"cpus": {"node2": 0.1}}, num_bytes=4_000_000)
        (server,) = made.servers
        # Whoever else uses this machine, it wanted far more of a processor than it was given.
        assert server.ready_s > 2 * server.cpu_s
        assert made.verdict.evidence.get("server_busy", 1.0) > 0.5
