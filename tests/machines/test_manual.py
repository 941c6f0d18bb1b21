"""Real machines on each of which somebody types `paceline join`."""

import sys

import pytest

from tests.commands import QUICK
from tests.machines.runs import CONFORMANCE, PACELINE, SAME, assert_nothing_is_left, only_run
from tests.machines.strategies import asked_for, assert_as_on_one_machine, cases, trusting
from tests.paths import ROOT

SECRET = "0123456789abcdef" * 4
_ENOUGH_S = 100


@pytest.fixture
def secret(hosts, folder):
    return secret_file(folder, SECRET)


def secret_file(folder, text):
    file = folder / f"secret-{text[:4]}"
    file.write_text(text)
    file.chmod(0o600)
    return ("env", f"PACELINE_SECRET_FILE={file}")


def join(hosts, name, secret, *more: object):
    return hosts.start(name, [*secret, *PACELINE, "join", hosts.address("a"), *more])


def listed(hosts, *workers: str, ports: bool = True) -> tuple[object, ...]:
    port = ":2861" if ports else ""
    entries = ",".join(f'"{hosts.address(name)}{port}"' for name in workers)
    return ("--set", f"cluster.hosts.worker=[{entries}]")


def by_hand(hosts, secret, *arguments: object, workload="logistic-mnist") -> list[object]:
    where = ("--cluster", "manual", *listed(hosts, "a", "b", "c"))
    return [*secret, *PACELINE, "run", workload, *where, *arguments, *QUICK, *SAME]


@pytest.mark.parametrize(("strategy", "workload"), cases("ring-logistic-mnist"))
def test_three_hosts_come_to_what_one_machine_comes_to(strategy, workload, hosts, folder, secret):
    there, here = folder / "there", folder / "here"
    there.mkdir(), here.mkdir()
    joined = [join(hosts, name, secret) for name in hosts.names]
    asked = (*asked_for(strategy, workload), *trusting(strategy))
    done = hosts.run("a", by_hand(hosts, secret, *asked, workload=workload), cwd=there)
    assert done.returncode == 0, done.stderr
    for each in joined:
        _, told = each.communicate(timeout=_ENOUGH_S)
        assert (each.returncode, "the run is over" in told) == (0, True), told
    assert_nothing_is_left(hosts)
    assert_as_on_one_machine(strategy, workload, "manual", there, here)
    shown = hosts.run("a", [*PACELINE, "show", "last"], cwd=there).stdout
    for name in hosts.names:
        assert f"tcp://{hosts.address(name)}:2861" in shown
    assert f"tcp://{hosts.address('a')}:2860" in shown


@pytest.mark.thorough
def test_it_is_a_cluster_as_all_are(hosts, secret):
    joined = [join(hosts, name, secret) for name in ("b", "c")]
    addresses = ",".join(hosts.address(name) for name in ("b", "c"))
    suite = [*secret, f"PACELINE_TEST_ADDRESSES={addresses}", *CONFORMANCE]
    done = hosts.run("a", suite, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    for each in joined:
        _, told = each.communicate(timeout=_ENOUGH_S)
        assert (each.returncode, "the run is over" in told) == (0, True), told
    assert_nothing_is_left(hosts)


@pytest.mark.thorough
class TestErrors:
    """Each is told to the one who typed it, and leaves nothing."""

    def ended(self, process) -> str:
        _, told = process.communicate(timeout=_ENOUGH_S)
        assert process.returncode == 1, told
        assert "Traceback" not in told
        return told

    def test_a_host_where_nobody_joins(self, hosts, folder, secret):
        joined = [join(hosts, name, secret) for name in ("a", "b")]
        few = ("--strategy", "ring", "--set", "cluster.join_s=8")
        done = hosts.run("a", by_hand(hosts, secret, *few), cwd=folder)
        assert f"node2 ({hosts.address('c')}): did not call" in done.stderr
        assert "within 8 s" in done.stderr
        for each in joined:
            each.communicate(timeout=_ENOUGH_S)
        assert_nothing_is_left(hosts)

    def test_another_secret_and_a_host_that_is_not_in_the_list(self, hosts, folder, secret):
        other = secret_file(folder, SECRET[::-1])
        where = ("--cluster", "manual", *listed(hosts, "a", "b"))
        asked = [*secret, *PACELINE, "run", "logistic-mnist", *where, "--strategy", "ring"]
        driver = hosts.start("a", [*asked, *QUICK, *SAME, "cluster.join_s=15"], cwd=folder)
        wrong, unlisted = join(hosts, "b", other), join(hosts, "c", secret, "--wait", 10)
        assert "is not trusted: its secret is not this machine's" in self.ended(wrong)
        assert f"it does not wait for {hosts.address('c')}" in self.ended(unlisted)
        assert "did not call" in self.ended(driver)
        assert not any(folder.glob("runs/*/records/worker*"))
        assert only_run(folder)
        assert_nothing_is_left(hosts)

    def test_no_driver(self, hosts, folder, secret):
        told = self.ended(join(hosts, "b", secret, "--wait", 2))
        assert "no answer within 2 s" in told
        assert_nothing_is_left(hosts)

    def test_a_driver_that_is_killed(self, hosts, folder, secret):
        joined = [join(hosts, name, secret) for name in hosts.names]
        long = ("--strategy", "ps-async", "--seconds", 300)
        driver = hosts.start("a", by_hand(hosts, secret, *long), cwd=folder)
        while not any(folder.glob("runs/*/records/worker*")):
            assert driver.poll() is None, driver.communicate()
        driver.kill()
        driver.communicate()
        for each in joined:
            each.communicate(timeout=_ENOUGH_S)
        assert_nothing_is_left(hosts)


@pytest.mark.thorough
def test_no_secret_is_in_a_process_list_or_a_file_of_the_run(hosts, folder, secret):
    joined = [join(hosts, name, secret) for name in hosts.names]
    asked = by_hand(hosts, secret, "--strategy", "ring", "--seconds", 3)
    driver = hosts.start("a", asked, cwd=folder)
    seen = []
    while driver.poll() is None:
        seen += [text for name in hosts.names for text in hosts.processes(name).values()]
    driver.communicate()
    for each in joined:
        each.communicate(timeout=_ENOUGH_S)
    assert seen
    assert not any(SECRET in text for text in seen)
    assert sys.executable in "".join(seen)
    assert SECRET not in "".join(path.read_text() for path in folder.glob("runs/*/*.*[nl]"))
