"""A loop of one's own drives the same session as the usual one, and is told where it goes wrong."""

import json
import os
from pathlib import Path

import pytest

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.description import Count
from paceline.errors import SeatFailed, SpecError
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.strategies.base import Strategy
from paceline.strategies.local import Single
from paceline.strategies.parameter_server.describe import PsAsync, PsSync
from paceline.testing.strategies import assert_parameters_close
from paceline.testing.workloads import Moons, _Points
from paceline.training.optim import Sgd
from paceline.workloads.base import Workload, loop_of
from paceline.workloads.libsvm import LogisticLibsvm
from paceline.workloads.synthetic import Synthetic
from tests.sharing import run

QUIET = paceline.Record(tensorboard=False, monitor=False)
ALL = [
    (Single(), 1),
    (Ring(), 3),
    (Ring(bucket_bytes=64), 3),  # gradients leave while others are computed
    (PsSync(), 3),
]


def ids(value: object) -> str | None:
    return str(value) if isinstance(value, Strategy) else None


class Accumulating(_Points):
    """Points, of which several batches make a step."""

    num_batches: Count = 4

    def train(self, session):
        while not session.last:
            for _ in range(self.num_batches - 1):
                session.compute(session.next_batch(), more=True)
            session.compute(session.next_batch())
            session.exchange()
            session.pause()


class WarmingUp(_Points):
    """Points, of which the first steps take only few of each batch."""

    def train(self, session):
        while not session.last:
            batch = session.next_batch()
            num_rows = min(len(batch[0]), 1 + session.num_steps)
            session.compute([column[:num_rows] for column in batch])
            session.exchange()
            session.pause()


class EndsItself(_Points):
    """A loop that knows when it is over: one of its workers does."""

    def train(self, session):
        while not session.last:
            if session.num_steps == 6:
                session.stop()
            session.compute(session.next_batch())
            session.exchange()
            session.pause()


class Peeking(_Points):
    """Points; the loop notes after each exchange whether the next batch is there already."""

    folder: str
    early: bool = True

    def data(self, split, dtype):
        data = super().data(split, dtype)
        data.gathers_early = self.early
        return data

    def train(self, session):
        seen = []
        while not session.last:
            session.compute(session.next_batch())
            session.exchange()
            seen.append(session._ahead is not None)
            session.pause()
        Path(self.folder, f"{os.getpid()}.json").write_text(json.dumps(seen))


def spec_of(workload: Workload, strategy: Strategy, workers: int, **fields) -> paceline.RunSpec:
    given = {
        "workload": workload,
        "strategy": strategy,
        "cluster": Inline(),
        "num_workers": workers,
        "batch": 2,
        "dtype": "float64",
        "optimizer": Sgd(lr=0.1, momentum=0.9),
        "record": QUIET,
    }
    return paceline.RunSpec(**(given | fields))


def progress_of(result: paceline.Result) -> list[int]:
    """After how many steps the run was evaluated."""
    return StoredRun(RunDir(Path(result.run)), result).evaluations["progress"].to_list()


@pytest.mark.parametrize("strategy", [Ring(), PsSync(), PsAsync(), Ring(bucket_bytes=64)], ids=ids)
def test_the_next_batch_is_gathered_while_an_exchange_waits(strategy, tmp_path):
    """Where workers wait for each other, and with one thread; the result stays what it is."""
    fields = {"cluster": Local(), "worker_steps": 20, "eval_every": 7, "checkpoint_every": 5}
    results, seen = {}, {}
    for early in (True, False):
        folder = tmp_path / str(early)
        folder.mkdir()
        spec = spec_of(Peeking(folder=str(folder), early=early), strategy, 3, **fields)
        results[early] = run(spec, out=tmp_path)
        seen[early] = [json.loads(each.read_text()) for each in folder.glob("*.json")]
        assert len(seen[early]) == 3
    assert not any(map(any, seen[False]))
    if strategy == PsSync():
        assert seen[True] == [[True] * 19 + [False]] * 3  # none is gathered for after the last step
    elif strategy == Ring():
        assert any(map(any, seen[True]))
        assert not any(each[-1] for each in seen[True])
    else:
        assert not any(map(any, seen[True]))
    if strategy.repeats:
        assert_parameters_close(*results.values(), tolerance=0.0)
    for each in results[True].workers:
        assert each.load_s is None or each.load_s >= 0


class TestALoopOfItsOwn:
    @pytest.mark.parametrize(
        ("strategy", "workers"),
        [*ALL, pytest.param(Ddp(bucket_bytes=64), 3, marks=pytest.mark.thorough)],
        ids=ids,
    )
    def test_the_mean_of_several_batches_is_one_step(self, strategy, workers, tmp_path):
        # The rows of a step are the same, in whatever batches they come.
        fields = {"batch": 24 // workers, "worker_steps": 10}
        if strategy.needs_processes:
            fields["cluster"] = Local()
        spec = spec_of(Accumulating(num_batches=4), strategy, workers, **fields)
        ours = paceline.run(spec, out=tmp_path)
        single = spec_of(Moons(), Single(), 1, batch=4 * 24, worker_steps=10)
        assert_parameters_close(ours, paceline.run(single, out=tmp_path), tolerance=1e-9)
        assert ours.global_steps == 10
        assert [each.worker_steps for each in ours.workers] == [10] * workers
        assert ours.samples == 10 * 4 * 24

    @pytest.mark.parametrize(("strategy", "workers"), ALL, ids=ids)
    def test_a_warm_up_equals_the_same_by_one_worker(self, strategy, workers, tmp_path):
        ours = spec_of(WarmingUp(), strategy, workers, batch=8, worker_steps=12, eval_every=5)
        results = [paceline.run(ours, out=tmp_path) for _ in range(2)]
        assert_parameters_close(*results, tolerance=0.0)
        assert progress_of(results[0]) == [5, 10, 12]
        assert results[0].samples == 12 * 8 * workers
        plain = paceline.run(
            spec_of(Moons(), strategy, workers, batch=8, worker_steps=12), out=tmp_path
        )
        with pytest.raises(AssertionError):
            assert_parameters_close(results[0], plain, tolerance=1e-6)

    def test_epochs_count_batches_and_steps_count_steps(self, tmp_path):
        workload = Accumulating(num_batches=4)
        epoch = paceline.run(spec_of(workload, Ring(), 2, batch=8, epochs=2), out=tmp_path)
        assert epoch.samples == 2 * 480
        assert epoch.global_steps == 2 * 480 // (4 * 2 * 8) == 15
        steps = paceline.run(spec_of(workload, Ring(), 2, batch=8, steps=7), out=tmp_path)
        assert (steps.global_steps, steps.samples) == (7, 7 * 4 * 2 * 8)

    def test_a_step_of_several_batches_has_their_mean_loss(self, tmp_path):
        record = paceline.Record(tensorboard=False, monitor=False, loss="all")
        fields = {"record": record, "optimizer": Sgd(lr=1e-12), "worker_steps": 6}
        runs = [
            paceline.run(spec_of(workload, Single(), 1, batch=batch, **fields), out=tmp_path)
            for workload, batch in ((Accumulating(num_batches=3), 8), (Moons(), 24))
        ]
        ours, wanted = (
            StoredRun(RunDir(Path(each.run)), each).losses["loss"].to_list() for each in runs
        )
        assert ours == pytest.approx(wanted, abs=1e-6)

    @pytest.mark.parametrize(("strategy", "workers"), ALL, ids=ids)
    def test_it_may_end_before_the_run_is_due_to(self, strategy, workers, tmp_path):
        spec = spec_of(EndsItself(), strategy, workers, worker_steps=1000)
        result = paceline.run(spec, out=tmp_path)
        assert [each.worker_steps for each in result.workers] == [7] * workers
        assert result.test_accuracy is not None


def compute_first(session):
    session.compute(())


def exchange_first(session):
    session.next_batch()
    session.exchange()


def compute_twice(session):
    batch = session.next_batch()
    session.compute(batch)
    session.compute(batch)


def forget_to_pause(session):
    for _ in range(2):
        session.compute(session.next_batch())
        session.exchange()


def go_on_after_the_last(session):
    while True:
        session.compute(session.next_batch())
        session.exchange()
        session.pause()


def end_too_soon(session):
    session.compute(session.next_batch())
    session.exchange()
    session.pause()


LOOPS = {
    compute_first: r"session\.compute\(\) was called where session\.next_batch\(\) is next: a step "
    r"is next_batch\(\), compute\(batch\), exchange\(\), pause\(\)",
    exchange_first: r"session\.exchange\(\) was called where session\.compute\(\) is next",
    compute_twice: r"session\.compute\(\) was called where session\.exchange\(\) is next",
    forget_to_pause: r"session\.next_batch\(\) was called where session\.pause\(\) is next",
    go_on_after_the_last: r"session\.next_batch\(\) was called after the last step",
    end_too_soon: r"the training loop ended after 1 steps, before its session did: loop until",
}


class Looping(_Points):
    """Points, and a loop by its name."""

    loop: str

    def train(self, session):
        globals()[self.loop](session)


class TestAWrongOrder:
    @pytest.mark.parametrize("loop", LOOPS, ids=lambda each: each.__name__)
    def test_is_told(self, loop, tmp_path):
        spec = spec_of(Looping(loop=loop.__name__), Single(), 1, worker_steps=4)
        with pytest.raises(SeatFailed, match=f"worker0 failed: LoopError: {LOOPS[loop]}"):
            paceline.run(spec, out=tmp_path)

    def test_others_do_not_wait_for_a_loop_that_ends_too_soon(self, tmp_path):
        spec = spec_of(Looping(loop="end_too_soon"), Ring(), 2, worker_steps=4)
        with pytest.raises(SeatFailed, match=r"worker\d failed: LoopError: the training loop"):
            paceline.run(spec, out=tmp_path)

    def test_a_table_of_rows_takes_one_batch_per_step(self, tmp_path):
        class Sparse(Synthetic):
            train = Accumulating.train
            num_batches = 2

        spec = spec_of(Sparse(rows=100, features=50, nonzeros=3), Single(), 1, worker_steps=4)
        with pytest.raises(SeatFailed, match=r"LoopError: .*more=True\): a model with a table"):
            paceline.run(spec, out=tmp_path)

    def test_train_must_take_a_session(self, tmp_path):
        class Takes(_Points):
            def train(self):
                pass

        with pytest.raises(SpecError, match=r"must be defined as train\(self, session\)"):
            paceline.run(spec_of(Takes(), Single(), 1, steps=1), out=tmp_path)


def test_a_field_may_be_called_train_and_the_loop_is_then_the_usual_one(tmp_path):
    assert loop_of(LogisticLibsvm(train=tmp_path)).func is Workload.train
    own = Accumulating()
    assert loop_of(own) == own.train
