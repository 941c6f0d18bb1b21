"""Real machines of a Ray cluster, as a user who has one sees it."""

import json
import os

import pytest

from tests.commands import QUICK
from tests.machines.ray_cluster import AUTH, PORT, start_ray, why_not
from tests.machines.runs import CONFORMANCE, PACELINE, SAME, assert_nothing_is_left, only_run
from tests.machines.strategies import asked_for, assert_as_on_one_machine, cases, trusting
from tests.paths import ROOT

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


@pytest.fixture(scope="module")
def on_ray(hosts):
    start_ray(hosts)
    return hosts


def over_ray(*arguments: object, workload: str = "logistic-mnist", nodes: int = 3) -> list[object]:
    """Give the command of a run, for the first of the hosts."""
    where = ("--cluster", "ray", "--nodes", nodes)
    return [*AUTH, *PACELINE, "run", workload, *where, *arguments, *QUICK, *SAME]


@pytest.mark.parametrize(("strategy", "workload"), cases("ps-sync-logistic-mnist"))
def test_three_nodes_come_to_what_one_machine_comes_to(strategy, workload, on_ray, folder):
    there, here = folder / "there", folder / "here"
    there.mkdir(), here.mkdir()
    asked = over_ray(*asked_for(strategy, workload), *trusting(strategy), workload=workload)
    done = on_ray.run("a", asked, cwd=there)
    assert done.returncode == 0, done.stderr
    assert_nothing_is_left(on_ray)
    assert_as_on_one_machine(strategy, workload, "ray", there, here)


@pytest.mark.thorough
def test_it_is_a_cluster_as_all_are(on_ray):
    told = os.environ | {"PACELINE_TEST_RAY": "auto"}
    done = on_ray.run("a", [*AUTH, *CONFORMANCE], cwd=ROOT, env=told)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert_nothing_is_left(on_ray)


@pytest.mark.thorough
class TestErrors:
    """Each is told before anything trains, and leaves nothing."""

    def refused(self, hosts, folder, command, code=1) -> str:
        done = hosts.run("a", command, cwd=folder)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert not any(folder.glob("runs/*/records/worker*"))
        assert_nothing_is_left(hosts)
        return done.stderr

    def test_more_nodes_than_there_are(self, on_ray, folder):
        told = self.refused(on_ray, folder, over_ray("--strategy", "ring", nodes=4))
        assert "4 nodes were asked for, and it has 3 with CPUs" in told

    def test_more_cpus_than_are_free(self, on_ray, folder):
        few = ("--set", "cluster.cpus=5", "cluster.join_s=3")
        told = self.refused(on_ray, folder, over_ray("--strategy", "ring", *few, nodes=2))
        assert "cannot place the nodes: asked for 2 different nodes with CPU 5 each" in told
        assert "free are CPU 2 of 2 on a; CPU 2 of 2 on b; CPU 2 of 2 on c" in told

    def test_a_resource_that_no_node_has(self, on_ray, folder):
        odd = ("--set", "cluster.resources.anvil=1", "cluster.join_s=3")
        told = self.refused(on_ray, folder, over_ray("--strategy", "ring", *odd))
        assert "3 nodes were asked for, and it has 0 with CPUs and anvil 1" in told

    def test_no_token(self, on_ray, folder):
        command = over_ray("--strategy", "ring")[len(AUTH) :]
        bare = ["env", "RAY_AUTH_MODE=token", *command]
        assert "no authentication token was found" in self.refused(on_ray, folder, bare)

    def test_another_token(self, on_ray, folder):
        command = over_ray("--strategy", "ring")[len(AUTH) :]
        wrong = ["env", "RAY_AUTH_MODE=token", f"RAY_AUTH_TOKEN={'f' * 32}", *command]
        assert "is RAY_AUTH_TOKEN here what it is there?" in self.refused(on_ray, folder, wrong)

    def test_no_ray_at_that_address(self, on_ray, folder):
        nowhere = ("--set", f"cluster.ray_address={on_ray.address('b')}:{PORT}")
        told = self.refused(on_ray, folder, over_ray("--strategy", "ring", *nowhere))
        assert "does `ray status` work here?" in told


@pytest.mark.thorough
def test_several_runs_of_a_command_have_one_actor_per_node(on_ray, folder):
    few = ("--strategies", "single,ring", "--repeat", 1, "--set", "cluster.cpus=0.5")
    asked = [each for each in over_ray("--steps", 20, *few) if each != "run"]
    asked.insert(asked.index("logistic-mnist"), "compare")
    done = on_ray.run("a", asked, cwd=folder)
    assert done.returncode == 0, done.stderr
    for path in folder.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        workers = [result["listeners"][each["name"]][0] for each in result["workers"]]
        hosts = {each.rpartition(":")[0] for each in workers}
        assert len(hosts) == result["num_workers"], workers
    assert_nothing_is_left(on_ray)


@pytest.mark.thorough
def test_no_secret_of_a_run_is_in_rays_memory_or_logs(on_ray, folder):
    """A token of an invitation is 64 digits: none that the driver made is seen by Ray."""
    done = on_ray.run("a", over_ray("--strategy", "ring", "--worker-steps", 20), cwd=folder)
    assert done.returncode == 0, done.stderr
    seen = on_ray.run("a", ["grep", "-rlaE", "BEGIN CERTIFICATE", "/tmp/ray", "/dev/shm"])
    assert not seen.stdout, seen.stdout
    assert only_run(folder)


@pytest.mark.thorough
def test_doctor_shows_what_the_cluster_offers(on_ray, folder):
    done = on_ray.run("b", [*AUTH, *PACELINE, "doctor", "--ray", "auto", "--json"], cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [each["host"] for each in told["nodes"]] == ["a", "b", "c"]
    assert all(each["total"] == {"CPU": 2.0} for each in told["nodes"])
    assert all(each["problem"] is None for each in told["nodes"])
