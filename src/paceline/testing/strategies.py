"""What every strategy must do; which checks apply follows from what its class promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pytest

from paceline.clusters.base import Cluster
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.engine import driver
from paceline.engine.evaluation import Evaluator
from paceline.errors import SeatFailed
from paceline.outcome.results import Result
from paceline.parts import Record
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.strategies.base import Member, Place, Strategy
from paceline.strategies.local import Single
from paceline.testing.sharing import shared_zygote
from paceline.testing.workloads import Flawed, Moons, Poisoned
from paceline.training.optim import Adagrad, Adam, AdamW, Optimizer, Sgd
from paceline.training.schedules import Cosine

BATCH = 8
STEPS = 50
_LOOKED: Final = -1  # beside the ranks of workers
QUIET = Record(tensorboard=False, monitor=False)

FLAWS: tuple[Literal["NaN", "infinite", "too large"], ...] = ("NaN", "infinite", "too large")

OPTIMIZERS: tuple[Optimizer, ...] = (
    Sgd(lr=0.1),
    Sgd(lr=0.1, momentum=0.9),
    Sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    Adam(lr=0.01),
    AdamW(lr=0.01),
    Adagrad(lr=0.05),
    AdamW(lr=0.01, schedule=Cosine(warmup_steps=10, end_step=40)),
)


class StrategyConformance:
    """Subclass it, set `strategy`, and run pytest."""

    strategy: ClassVar[Strategy]
    num_workers: ClassVar[int] = 3
    clusters: ClassVar[tuple[Cluster, ...]] = (Inline(), Local())
    must_equal_single: ClassVar[bool] = False
    """Whether it is not enough to make no promise: set it where "write ps-sync" is the task."""

    def spec(self, **fields: Any) -> RunSpec:
        """Make the run that a check is about."""
        given: dict[str, Any] = {
            "workload": Moons(),
            "strategy": self.strategy,
            "cluster": self.clusters[0],
            "num_workers": self.num_workers,
            "batch": BATCH,
            "worker_steps": STEPS,
            "dtype": "float64",
            "record": QUIET,
        }
        return RunSpec(**(given | fields))

    def run(self, spec: RunSpec, out: Path) -> Result:
        return driver.run(spec, out=out, zygote=shared_zygote())

    def test_every_worker_makes_its_steps_on_every_cluster(self, tmp_path: Path) -> None:
        for cluster in self.clusters:
            result = self.run(self.spec(cluster=cluster), tmp_path)
            assert [each.worker_steps for each in result.workers] == [STEPS] * self.num_workers
            assert result.samples == STEPS * self.num_workers * BATCH
            assert (result.global_steps is None) == (not self.strategy.counts_steps)
            if self.strategy.in_step:
                assert result.global_steps == STEPS, "a global step is not one of every worker"

    def test_it_learns(self, tmp_path: Path) -> None:
        spec = self.spec(worker_steps=400, optimizer=Sgd(lr=0.2, momentum=0.9))
        assert (self.run(spec, tmp_path).test_accuracy or 0.0) > 0.9

    @pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
    def test_it_equals_one_worker_with_all_the_rows(
        self, optimizer: Optimizer, tmp_path: Path
    ) -> None:
        if self.must_equal_single:
            assert self.strategy.equals_single, "it must equal `single`, and does not promise to"
        self._needs(self.strategy.equals_single, "equal `single`")
        spec = self.spec(optimizer=optimizer)
        ours = self.run(spec, tmp_path)
        assert ours.global_steps == STEPS
        assert_parameters_close(ours, self.run(alone(spec), tmp_path), tolerance=1e-9)

    def test_linear_scaling_is_one_worker_with_as_many_times_the_learning_rate(
        self, tmp_path: Path
    ) -> None:
        self._needs(self.strategy.equals_single, "equal `single`")
        ours = self.spec(optimizer=Sgd(lr=0.05, lr_scaling="linear"))
        wanted = replace(alone(ours), optimizer=Sgd(lr=0.05 * self.num_workers))
        results = [self.run(spec, tmp_path) for spec in (ours, wanted)]
        assert_parameters_close(*results, tolerance=1e-9)

    def test_two_runs_with_one_seed_are_equal_to_the_bit(self, tmp_path: Path) -> None:
        self._needs(self.strategy.repeats, "repeat to the bit")
        for cluster in self.clusters:
            spec = self.spec(cluster=cluster, dtype="float32")
            first, second = self.run(spec, tmp_path), self.run(spec, tmp_path)
            assert_parameters_close(first, second, tolerance=0.0)

    def test_another_seed_gives_other_parameters(self, tmp_path: Path) -> None:
        first = self.run(self.spec(seed=1), tmp_path)
        second = self.run(self.spec(seed=2), tmp_path)
        with pytest.raises(AssertionError):
            assert_parameters_close(first, second, tolerance=1e-6)

    def test_evaluations_do_not_change_what_is_learnt(self, tmp_path: Path) -> None:
        self._needs(self.strategy.repeats, "repeat to the bit")
        plain = self.run(self.spec(), tmp_path)
        looked = self.run(self.spec(eval_every=7), tmp_path)
        assert_parameters_close(plain, looked, tolerance=0.0)

    def test_all_workers_settle_before_each_evaluation(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = next((each for each in self.clusters if each.shares_process), None)
        if cluster is None:
            pytest.skip("only what shares the process of the test can be listened to")
        heard = _listen(type(self.strategy), monkeypatch)
        self.run(self.spec(cluster=cluster, eval_every=20), tmp_path)
        looks = [at for at, each in enumerate(heard) if each == _LOOKED]
        assert len(looks) >= 3  # after 20 and 40 steps, and at the end
        for at in looks:
            assert sorted(heard[at - self.num_workers : at]) == list(range(self.num_workers))
        times = {heard.count(rank) for rank in range(self.num_workers)}
        assert len(times) == 1, "some workers settled more often than others"

    def test_global_steps_are_kept_to_exactly(self, tmp_path: Path) -> None:
        self._needs(self.strategy.counts_steps, "count global steps")
        for cluster in self.clusters:
            spec = replace(self.spec(cluster=cluster), worker_steps=None, steps=30)
            assert self.run(spec, tmp_path).global_steps == 30

    def test_a_run_limited_by_time_ends_for_all_workers(self, tmp_path: Path) -> None:
        for cluster in self.clusters:
            spec = replace(self.spec(cluster=cluster), worker_steps=None, seconds=0.5)
            assert self.run(spec, tmp_path).status == "finished"

    def test_a_target_ends_the_run(self, tmp_path: Path) -> None:
        spec = self.spec(worker_steps=100_000, target_accuracy=0.6, eval_every=20)
        result = self.run(spec, tmp_path)
        assert result.seconds_to_target is not None
        assert result.workers[0].worker_steps < 100_000

    @pytest.mark.parametrize("flaw", FLAWS)
    def test_a_gradient_that_is_not_finite_is_refused_and_counted(
        self, flaw: Literal["NaN", "infinite", "too large"], tmp_path: Path
    ) -> None:
        spec = self.spec(workload=Flawed(flaw=flaw), worker_steps=None, epochs=2)
        result = self.run(spec, tmp_path)
        assert result.refused_steps >= 2  # the flawed row comes once an epoch
        assert sum(each.refused_because.get(flaw, 0) for each in result.workers) >= 2
        assert any("worker steps were refused" in each for each in result.warnings)
        assert result.test_loss is not None
        if self.strategy.equals_single:
            assert [each.refused for each in result.workers] == [2] * self.num_workers
            assert result.global_steps == result.workers[0].worker_steps - 2
            assert_parameters_close(result, self.run(alone(spec), tmp_path), tolerance=1e-9)

    @pytest.mark.parametrize("flaw", FLAWS)
    def test_gradients_that_are_never_finite_fail_the_run(
        self, flaw: Literal["NaN", "infinite", "too large"], tmp_path: Path
    ) -> None:
        never = self.spec(workload=Flawed(flaw=flaw, flawed_rows=480), most_refused=5)
        if self.strategy.counts_steps:
            never = replace(never, worker_steps=None, steps=30)
        with pytest.raises(SeatFailed, match=f"5 steps in a row were refused .* {flaw}"):
            self.run(never, tmp_path)

    def test_a_run_too_short_for_that_fails_at_its_end(self, tmp_path: Path) -> None:
        spec = self.spec(workload=Flawed(flawed_rows=480), worker_steps=3)
        with pytest.raises(SeatFailed, match="all of its 3 steps were refused: a gradient is NaN"):
            self.run(spec, tmp_path)

    def test_an_exception_in_a_worker_ends_the_run_and_names_it(self, tmp_path: Path) -> None:
        for cluster in self.clusters:
            spec = self.spec(workload=Poisoned(), cluster=cluster, worker_steps=None, epochs=1)
            with pytest.raises(SeatFailed, match=r"worker\d failed: RuntimeError: a poisoned row"):
                self.run(spec, tmp_path)

    def test_a_worker_that_dies_ends_the_run_and_is_named(self, tmp_path: Path) -> None:
        poisoned = Poisoned(way="die")
        spec = self.spec(workload=poisoned, cluster=Local(), worker_steps=None, epochs=1)
        with pytest.raises(SeatFailed, match=r"worker\d failed: killed by signal 9"):
            self.run(spec, tmp_path)

    def _needs(self, promised: bool, what: str) -> None:
        if not promised:
            pytest.skip(f"{self.strategy.name} does not promise to {what}")


def _listen(strategy: type[Strategy], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the rank of each worker that has settled, and each evaluation, as they come."""
    heard: list[int] = []
    join, metrics = strategy.join, Evaluator.metrics

    def listened_to(self: Strategy, place: Place) -> Member:
        member = join(self, place)
        settle = member.settle

        def settled() -> None:
            settle()
            heard.append(place.rank)

        member.settle = settled  # type: ignore[method-assign]
        return member

    def looked(self: Evaluator) -> dict[str, float]:
        heard.append(_LOOKED)
        return metrics(self)

    monkeypatch.setattr(strategy, "join", listened_to)
    monkeypatch.setattr(Evaluator, "metrics", looked)
    return heard


def alone(spec: RunSpec) -> RunSpec:
    """Give the run of one worker that sees the rows which all workers of `spec` see together."""
    assert isinstance(spec.batch, int)
    batch = spec.batch * spec.num_workers
    return replace(spec, strategy=Single(), num_workers=1, batch=batch)


def parameters_of(result: Result) -> dict[str, Any]:
    """Read a run's final parameters."""
    from safetensors.numpy import load_file

    loaded: dict[str, Any] = load_file(RunDir(Path(result.run)).model)
    return loaded


def assert_parameters_close(one: Result, other: Result, *, tolerance: float) -> None:
    """Compare the final parameters of two runs, element by element."""
    import numpy as np

    ours, theirs = parameters_of(one), parameters_of(other)
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=0, atol=tolerance, err_msg=name)


def assert_norm_close(one: Result, other: Result, *, tolerance: float) -> None:
    """Compare the final parameters of two runs as one vector: how far apart, for its length."""
    import numpy as np

    ours, theirs = (
        np.concatenate([values.ravel() for _, values in sorted(parameters_of(result).items())])
        for result in (one, other)
    )
    apart = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    assert apart <= tolerance, f"apart by {apart:.1e} of the norm"
