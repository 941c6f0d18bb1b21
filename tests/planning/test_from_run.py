"""What a plan takes from a stored run, and what it refuses to be given beside."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import polars
import pytest

import paceline
from paceline.arithmetic.costs import Costs
from paceline.arithmetic.spread import mean
from paceline.errors import SpecError
from paceline.outcome.results import OPTIMIZER_STATES, NodeUsage, PairRate
from paceline.planning.from_run import basis_of_run, fields_of, link_note
from paceline.store.stored import StoredRun
from paceline.verdict.handling import costs_of
from tests.made_runs import made
from tests.verdict.made import server

SERVERS = (server(),)

HERE = Costs(message_s=1e-5, copy_s_per_byte=1e-10, add_s_per_byte=2e-10, apply_s_per_byte=3e-10)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return made(tmp_path / "runs", model_bytes=31_400)


def with_rows(run: StoredRun, **columns: list[float]) -> StoredRun:
    rows = run.steps.head(len(columns["count"]))
    named = [polars.Series(name, values) for name, values in columns.items()]
    rows.with_columns(named).write_parquet(run.folder.steps)
    return StoredRun.read(run.folder)


@pytest.mark.parametrize("field", ["batch", "rows_per_s", "device", "model_bytes"])
def test_what_the_run_says_is_not_given_beside_it(run: StoredRun, field: str):
    with pytest.raises(SpecError) as caught:
        paceline.plan(from_run=run.folder.path, link="1gbit", machines=[4], **{field: 3})
    assert [each.field for each in caught.value.problems] == [field]


def test_a_run_is_not_verified_and_everything_else_is_told_too(run: StoredRun):
    with pytest.raises(SpecError) as caught:
        paceline.plan("synthetic", from_run=run.folder.path, verify=True, machines="0")
    fields = {each.field for each in caught.value.problems}
    assert fields == {"--from", "--verify", "link", "machines"}


def test_real_machines_have_the_latency_that_was_measured(run: StoredRun):
    pairs = tuple(
        PairRate(sender="a", receiver="b", bits_per_s=1e9, round_trip_s=trip_s)
        for trip_s in (0.0002, 0.0004, 0.009)
    )
    assert "latency" not in fields_of(run)
    measured = replace(run, result=replace(run.result, pairs=pairs))
    assert fields_of(measured)["latency"] == pytest.approx(0.0002)


def test_processors_cost_what_they_cost_here_where_a_run_cannot_say(run: StoredRun):
    """A ring run has no server whose time was measured; as free it would flatter servers."""
    basis = basis_of_run(run, None, None, HERE)
    assert basis.costs == HERE
    assert any("was measured on this machine" in each for each in basis.notes)
    unknown = basis_of_run(run, None, None)
    assert any("is taken to be nothing" in each for each in unknown.notes)
    given = basis_of_run(run, None, HERE)
    assert given.costs == HERE
    assert not any("measured on this machine" in each for each in given.notes)


def test_steps_vary_more_than_rows_that_average_many_of_them(run: StoredRun):
    means = [0.9, 1.0, 1.0, 1.0, 1.1]
    one = basis_of_run(with_rows(run, count=[1] * 5, compute_s=means), None, HERE)
    many = with_rows(run, count=[16] * 5, compute_s=[16 * each for each in means])
    assert one.step.factors == pytest.approx((0.9, 1.0, 1.0, 1.0, 1.1))
    spread = 0.1 * math.sqrt(16)
    factors = basis_of_run(many, None, HERE).step.factors
    assert factors == pytest.approx((1 - spread, 1.0, 1.0, 1.0, 1 + spread))


def test_slow_steps_are_counted_once(run: StoredRun):
    """A worker's time per step is a mean, which its slow steps are part of."""
    slow = with_rows(run, count=[1] * 5, compute_s=[1e-3, 1e-3, 1e-3, 1e-3, 6e-3])
    step = basis_of_run(slow, None, HERE).step
    workers = [each for each in run.result.workers if each.compute_s]
    measured_s = median((each.compute_s or 0) / each.worker_steps for each in workers)
    assert mean(step.factors) == pytest.approx(2.0)
    computing_s = step.compute_s - step.fixed_s
    assert computing_s * mean(step.factors) == pytest.approx(measured_s)


def test_a_script_keeps_what_its_own_optimizer_does(run: StoredRun):
    workers = tuple(replace(each, other={OPTIMIZER_STATES: 2.0}) for each in run.result.workers)
    script = replace(run, result=replace(run.result, workers=workers, workload="train.py"))
    basis = basis_of_run(script, None, HERE)
    assert basis.num_states == 2
    assert basis.is_script
    assert not basis_of_run(run, None, HERE).is_script


def linked(run: StoredRun, *rates: float) -> StoredRun:
    nodes = tuple(
        NodeUsage(name=f"node{index}", seats=(f"worker{index}",), link_bits_per_s=rate)
        for index, rate in enumerate(rates)
    )
    return replace(run, result=replace(run.result, nodes=nodes))


def test_links_that_are_not_alike_are_told(run: StoredRun):
    alike, other = linked(run, 1e9, 0.97e9, 1e9), linked(run, 1e9, 1e8, 1e9)
    assert fields_of(other)["link"] == pytest.approx(1e9)
    assert link_note(alike) == link_note(run) == ""
    for part in ("100 to 1,000 Mbit/s", "middle one, 1,000", "--set links.node1"):
        assert part in link_note(other)


def test_of_two_runs_the_smaller_says_the_steps_and_the_larger_the_rest(tmp_path: Path):
    runs = tmp_path / "runs"
    large = made(runs, "ps-sync", num_workers=2, seconds=30, model_bytes=31_400)
    small = made(runs, "single", num_workers=1, model_bytes=31_400)
    names = [large.folder.path, small.folder.path]
    planned = paceline.plan(from_run=names, link="1gbit", machines=[2], costs={})
    one = paceline.plan(from_run=small.folder.path, link="1gbit", machines=[2], costs={})
    assert planned.plan.basis.step == one.plan.basis.step
    assert planned.plan.basis.title.endswith(f"{small.name} and {large.name}")
    assert any("steps are those of" in each for each in planned.plan.basis.notes)


def test_two_runs_of_different_things_do_not_go_together(tmp_path: Path):
    runs = tmp_path / "runs"
    first = made(runs, "single", num_workers=1, batch=75, model_bytes=31_400)
    other = made(runs, "ring", num_workers=2, batch=50, model_bytes=31_400)
    with pytest.raises(SpecError, match="another batch_size"):
        paceline.plan(from_run=[first.folder.path, other.folder.path], link="1gbit", machines=[2])


def test_a_server_of_one_worker_adds_nothing(run: StoredRun):
    """So what it took is all applying."""
    servers = tuple(replace(each, updates=100, apply_s=1.0) for each in SERVERS)
    result = replace(run.result, servers=servers, in_step=True, model_bytes=1000)
    one, three = (costs_of(replace(result, num_workers=count)) for count in (1, 3))
    assert one is not None
    assert three is not None
    assert one.apply_s_per_byte == pytest.approx(1e-5)
    assert three.apply_s_per_byte == pytest.approx(1e-5 / 4)


def test_what_is_assumed_of_sparse_rows_is_said(run: StoredRun):
    sparse = replace(run, result=replace(run.result, touched_rows=1234.0, row_bytes=4))
    notes = " ".join(basis_of_run(sparse, None, HERE).notes)
    assert "every batch is taken to touch 1,234 rows of the table" in notes
