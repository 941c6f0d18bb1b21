"""Mistakes, through every way of starting: one clear error that names the host, nothing trained."""

import pytest

from tests.machines import ray_cluster, test_manual, torchruns
from tests.machines.hosts import Hosts, why_not
from tests.machines.ray_cluster import AUTH, start_ray
from tests.machines.runs import ON_HOSTS, PACELINE, assert_nothing_is_left
from tests.machines.test_ssh import script

pytestmark = pytest.mark.thorough
LENGTH = ("--strategy", "ring", "--worker-steps", 20)
_ENOUGH_S = 150
MINE = """
import only_on_the_driver
import paceline
import torch


class Mine(paceline.Workload):
    default_batch = 8

    def model(self):
        return torch.nn.Linear(4, 2)

    def data(self, split, dtype):
        return paceline.Tensors(torch.ones(256, 4, dtype=dtype), torch.zeros(256).long())
"""


def through_ssh(hosts, folder, asked, env, odd=()):
    """`env` is for the driver on the first host, `odd` for the second."""
    where = ("--cluster", "ssh", "--hosts", "a,b")
    fields = [ON_HOSTS]
    if odd:
        python = script(folder, f'{" ".join(odd)} exec {ON_HOSTS.partition("=")[2]} "$@"')
        fields.append(f'cluster.pythons={{b="{python}"}}')
    done = hosts.run("a", ["env", *env, *PACELINE, "run", *asked, *where, *fields], cwd=folder)
    return done.returncode, done.stderr


def by_torchrun(hosts, folder, asked, env, odd=()):
    secret = f"PACELINE_SECRET={torchruns.SECRET}"
    run = ("-m", "paceline", "run", *asked, "--cluster", "torchrun")
    own = {"a": env, "b": odd, "c": ()}
    started = {}
    for name in hosts.names:
        logs = ("--log-dir", folder / f"logs-{name}")
        meeting = torchruns.c10d(name)
        command = ["env", secret, *own[name], *torchruns.TORCHRUN, *logs, *meeting, *run]
        started[name] = hosts.start(name, command, cwd=folder)
    return torchruns.told(started)["a"]


def by_hand(hosts, folder, asked, env, odd=()):
    secret = test_manual.secret_file(folder, test_manual.SECRET)
    own = {"a": (), "b": odd}
    joined = [test_manual.join(hosts, name, [*secret, *own[name]]) for name in ("a", "b")]
    where = ("--cluster", "manual", *test_manual.listed(hosts, "a", "b"))
    driver = [*secret, *env, *PACELINE, "run", *asked, *where]
    done = hosts.run("a", driver, cwd=folder, timeout=_ENOUGH_S)
    for each in joined:
        each.communicate(timeout=_ENOUGH_S)
    return done.returncode, done.stderr


def by_ray(hosts, folder, asked, env, odd=()):
    """What is odd about a host is so since Ray was started there."""
    where = ("--cluster", "ray", "--nodes", 3)
    done = hosts.run("a", [*AUTH, *env, *PACELINE, "run", *asked, *where], cwd=folder)
    return done.returncode, done.stderr


WAYS = {"ssh": through_ssh, "torchrun": by_torchrun, "manual": by_hand, "ray": by_ray}


@pytest.fixture(params=WAYS)
def way(request, named):
    if request.param == "ray":
        request.getfixturevalue("on_ray")
    return WAYS[request.param]


@pytest.fixture(scope="module")
def on_ray(hosts):
    reason = ray_cluster.why_not()
    if reason:
        pytest.skip(reason)
    start_ray(hosts)


def refused(hosts, folder, way, *asked, env=(), odd=()) -> str:
    code, told = way(hosts, folder, asked, env, odd)
    assert code in {1, 2}, told
    assert not any(each.stat().st_size for each in folder.glob("runs/*/records/worker*.jsonl"))
    assert_nothing_is_left(hosts)
    return told


def test_a_data_set_that_only_the_driver_has(named, folder, way):
    named.run("a", ["mkdir", "-p", "/run/rows"])
    rows = "".join(f"{index % 2} {index % 7 + 1}:1\n" for index in range(512))
    named.run("a", ["tee", "/run/rows/train.svm"], input=rows)
    named.take_for_granted()
    asked = ("logistic-libsvm", *LENGTH, "--set", "workload.train=/run/rows/train.svm")
    told = refused(named, folder, way, *asked, "workload.num_features=8")
    named.run("a", ["rm", "-r", "/run/rows"])
    assert "/run/rows/train.svm" in told
    assert "(b)" in told or "(c)" in told or f"({named.address('b')})" in told


def test_an_import_that_only_exists_on_the_driver(named, folder, way):
    (folder / "lib").mkdir()
    (folder / "lib" / "only_on_the_driver.py").touch()
    (folder / "mine.py").write_text(MINE)
    mine = f"{folder / 'mine.py'}:Mine"
    env = (f"PYTHONPATH={folder / 'lib'}",)
    told = refused(named, folder, way, mine, *LENGTH, "--set", "threads=1", env=env)
    assert "No module named 'only_on_the_driver'" in told
    assert "mine.py line 2" in told


def older(folder) -> tuple[str]:
    metadata = folder / "older" / "torch-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0+cu\n")
    return (f"PYTHONPATH={folder / 'older'}",)


@pytest.mark.parametrize("name", ["ssh", "torchrun", "manual"])
def test_another_torch(named, folder, name):
    asked = ("logistic-mnist", *LENGTH, "--set", "workload.subset=tenth")
    told = refused(named, folder, WAYS[name], *asked, odd=older(folder))
    assert "it has torch 1.0, the driver " in told
    assert "node1 (" in told


def test_another_torch_on_a_node_of_ray(tmp_path):
    reason = why_not() or ray_cluster.why_not()
    if reason:
        pytest.skip(reason)
    with Hosts(["a", "b", "c"], tmp_path) as hosts:
        start_ray(hosts, odd={"b": older(tmp_path)})
        asked = ("logistic-mnist", *LENGTH, "--set", "workload.subset=tenth")
        told = refused(hosts, tmp_path, by_ray, *asked)
        assert "node1 (b): it has torch 1.0, the driver " in told
        offered = hosts.run("a", [*AUTH, *PACELINE, "doctor", "--ray", "auto"])
        assert "it has torch 1.0, the driver " in offered.stdout
        assert offered.returncode == 0
