"""A worker that is stuck in its user's code is told of: who, in which phase, at which line."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.zygote import Zygote
from paceline.comm.words import Saved
from paceline.engine.progress import RunView
from paceline.engine.silence import Silences
from paceline.errors import SeatFailed
from paceline.outcome.results import Result
from paceline.store.runs import RunDir
from paceline.strategies.all_reduce.describe import Ring
from paceline.testing.workloads import Napping

QUIET = paceline.Record(tensorboard=False, model=False)


def names_below(pid: int) -> set[str]:
    """The names of all processes that descend from one, as `ps` and `top` show them."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
        except OSError:  # it has ended
            continue
        parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
        names[int(path.name)] = stat.partition("(")[2].rpartition(")")[0]
    found, wave = set(), {pid}
    while wave := {child for child, parent in parents.items() if parent in wave}:
        found |= {names[child] for child in wave}
    return found


@dataclass
class Seen:
    """What was seen of a run in which a worker was stuck until it was told of."""

    result: Result
    names: set[str]
    alerts: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as made:
        yield made


@pytest.fixture(scope="module", params=["sleep", "count"])
def seen(request, zygote: Zygote, tmp_path_factory) -> Seen:
    folder = tmp_path_factory.mktemp("stuck")
    until = folder / "go-on"
    made = Seen(None, set())

    def watch(view: RunView) -> None:
        made.alerts = view.alerts
        if any("in phase compute" in each for each in view.alerts) and not until.exists():
            made.names = names_below(os.getpid())
            until.touch()

    workload = Napping(until=str(until), way=request.param)
    spec = paceline.RunSpec(
        workload=workload,
        strategy=Ring(),
        num_workers=2,
        steps=60,
        stuck_s=0.5,
        record=QUIET,
    )
    made.result = paceline.run(spec, out=folder / "runs", watch=watch, zygote=zygote)
    return made


def test_the_run_says_who_is_stuck_and_where_and_goes_on(seen: Seen):
    assert seen.result.status == "finished"
    (told,) = [each for each in seen.result.warnings if "in phase compute" in each]
    assert told in seen.alerts
    name = told.partition(" ")[0]
    assert name in {"worker0", "worker1"}
    assert f"{name} was silent for " in told
    assert "in _nap from workloads.py:" in told
    assert "in loss; " in told
    assert f"its stack is in logs/{name}.log" in told
    log = Path(seen.result.run) / "logs" / f"{name}.log"
    assert 'workloads.py", line ' in log.read_text()


def test_the_processes_of_a_run_have_names(seen: Seen):
    wanted = {"worker0", "worker1", "monitor0", "keeper", "zygote"}
    assert {f"pace-{each}" for each in wanted} <= seen.names


def test_where_asked_for_the_run_stops(tmp_path: Path):
    until = tmp_path / "go-on"
    spec = paceline.RunSpec(
        workload=Napping(until=str(until), place="metrics"),
        cluster=Inline(),
        steps=2,
        stuck_s=1.0,
        when_stuck="stop",
        record=QUIET,
    )

    def watch(view: RunView) -> None:
        if view.alerts:
            until.touch()  # or a thread of the tests would nap for ever

    with pytest.raises(SeatFailed, match=r"worker0 failed: silent for .* in phase evaluate, at "):
        paceline.run(spec, out=tmp_path, watch=watch)


def stack(*frames: tuple[str, str]) -> str:
    """A dump as faulthandler writes it, of a worker's only thread; innermost frames first."""
    root = Path(paceline.__file__).parent
    lines = [f'  File "{root / file}", line 7 in {name}' for file, name in frames]
    return "\n".join(["Current thread 0x00007f (most recent call first):", *lines, ""])


COMPUTES = stack(("/home/me/mine.py", "loss"), ("compute/real.py", "gradients"))
WAITS = stack(("comm/shared.py", "wait"), ("strategies/all_reduce/ring.py", "exchange"))


class Workers:
    """Workers that say nothing, and write to their logs what they are given to write."""

    def __init__(self, folder: Path, **dumps: str) -> None:
        self.run_dir = RunDir(folder)
        self.run_dir.logs.mkdir()
        self.dumps = dumps
        self.silences = Silences(0.001, self.run_dir)

    def dump(self, name: str) -> None:
        with (self.run_dir.logs / f"{name}.log").open("a") as log:
            log.write(self.dumps[name])

    def until_told(self, *names: str) -> list[str]:
        while True:
            if told := self.silences.look(names, self.dump):
                return [f"{each.seat} {each.place.phase} {each.place.lines}" for each in told]


@pytest.fixture
def at_once(monkeypatch):
    """Stacks are there as soon as they are asked for."""
    monkeypatch.setattr("paceline.engine.silence._ANSWER_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_who_only_waits_for_the_one_that_is_stuck_is_not_told_of(tmp_path: Path):
    workers = Workers(tmp_path, worker0=WAITS, worker1=COMPUTES, worker2=WAITS)
    told = workers.until_told("worker0", "worker1", "worker2")
    assert told == ["worker1 compute ('mine.py:7 in loss',)"]
    for _ in range(100):
        assert workers.silences.look(["worker0", "worker1", "worker2"], workers.dump) == []


@pytest.mark.usefixtures("at_once")
def test_where_all_wait_all_are_told_of(tmp_path: Path):
    workers = Workers(tmp_path, worker0=WAITS, worker1=WAITS)
    told = workers.until_told("worker0", "worker1")
    assert [each.split()[:2] for each in told] == [["worker0", "exchange"], ["worker1", "exchange"]]


@pytest.mark.usefixtures("at_once")
def test_a_worker_that_goes_on_and_is_stuck_again_is_told_of_again_a_few_times(tmp_path: Path):
    workers = Workers(tmp_path, worker0=COMPUTES)
    for _ in range(5):
        assert len(workers.until_told("worker0")) == 1
        workers.silences.heard("worker0", Saved())
    for _ in range(10_000):
        assert workers.silences.look(["worker0"], workers.dump) == []


@pytest.mark.usefixtures("at_once")
def test_a_worker_that_writes_no_stack_is_told_of_without(tmp_path: Path):
    workers = Workers(tmp_path, worker0="nothing of ours")
    silences = workers.silences
    while not (told := silences.look(["worker0"], workers.dump)):
        pass
    assert str(told[0]) == "silent for 0 s; it wrote no stack"


@pytest.mark.usefixtures("at_once")
def test_the_time_in_which_nothing_was_asked_of_a_worker_does_not_count(tmp_path: Path):
    workers = Workers(tmp_path, worker0=COMPUTES)
    workers.silences = Silences(1e6, workers.run_dir)
    workers.silences.heard("worker0", Saved())
    workers.silences._since_s["worker0"] -= 2e6
    assert workers.silences.look([], workers.dump) == []
    assert workers.silences.look(["worker0"], workers.dump) == []
    assert workers.silences.look(["worker0"], workers.dump) == []
