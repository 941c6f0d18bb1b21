"""`--cluster ray`, as far as it goes without Ray."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from paceline.clusters.agents.ray import offers
from paceline.clusters.agents.ray.actor import _is_for_all
from paceline.clusters.agents.ray.describe import Ray
from paceline.errors import SpecError


def test_without_a_number_there_is_a_node_per_worker_and_per_server_of_its_own():
    together, apart = Ray().seats(3, 1), Ray().seats(3, 1, servers_apart=True)
    assert {seat.node for seat in together} == {"node0", "node1", "node2"}
    assert {seat.node for seat in apart if seat.role == "server"} == {"node3"}
    assert Ray(nodes=3).workers_meant(1) == 3
    assert Ray(nodes=3).workers_meant(1, servers_apart=True) == 2


def test_nodes_that_would_stay_empty_are_refused():
    (problem,) = Ray(nodes=3).group_problems(2, 0)
    assert problem.field == "cluster.nodes"


def test_cpus_have_a_field_of_their_own():
    (problem,) = Ray(resources={"CPU": 2.0}).problems()
    assert "cluster.cpus" in str(problem)


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SpecError, match=r"pip install 'paceline\[ray\]'"):
        Ray().verify()


def test_what_is_asked_for_reads_well():
    assert offers.told([{"CPU": 2.0}]) == "1 node with CPU 2"
    assert offers.told([{"CPU": 2.0, "GPU": 1.0}] * 2) == (
        "2 different nodes with CPU 2 and GPU 1 each"
    )
    assert offers.told([{"CPU": 4.0}, {"CPU": 2.0}]) == "2 different nodes with CPU 4; CPU 2"


def test_workers_do_not_inherit_rays_token():
    assert not _is_for_all("RAY_AUTH_TOKEN")
    assert not _is_for_all("RAY_AUTH_TOKEN_PATH")
    assert _is_for_all("PATH")


def ray_with(monkeypatch, **is_alive):
    """Have Ray know these nodes, by host."""
    nodes = [
        {"NodeID": host, "NodeManagerHostname": host, "Alive": alive, "Resources": {"CPU": 2.0}}
        for host, alive in is_alive.items()
    ]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=lambda: nodes))


def test_with_too_few_nodes_those_that_are_gone_are_named(monkeypatch):
    ray_with(monkeypatch, a=True, b=False, c=True)
    with pytest.raises(ValueError, match="it has 2 with CPUs; gone: b; if it can add some"):
        offers.bundles(3, None, {}, [])


def test_a_node_that_has_come_again_is_not_gone(monkeypatch):
    ray_with(monkeypatch, a=True, b=True)
    with pytest.raises(ValueError, match="it has 2 with CPUs; if it can add some"):
        offers.bundles(3, None, {}, [])
