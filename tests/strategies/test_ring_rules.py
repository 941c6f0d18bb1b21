"""What ring and ddp promise beyond what every strategy does."""

import pytest
import torch
from torch import nn

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.errors import SeatFailed, SpecError
from paceline.strategies.all_reduce.buckets import SendOrder, cut
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.strategies.all_reduce.slots import Slots
from paceline.strategies.local import Single
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing import Flawed, Moons, Poisoned
from paceline.testing.strategies import alone, assert_parameters_close
from paceline.training.optim import Adam, Sgd
from paceline.training.replica import Replica
from paceline.workloads.synthetic import Synthetic
from tests.sharing import run
from tests.strategies.odd_workloads import Branching, Broken, Drifting, Slow, Twice

QUIET = paceline.Record(tensorboard=False, monitor=False)
ZMQ = Local(transport="zmq")


def spec_of(strategy, **fields):
    given_fields = {
        "workload": Moons(),
        "cluster": Local(),
        "num_workers": 3,
        "batch": 8,
        "worker_steps": 30,
        "dtype": "float64",
        "record": QUIET,
        "optimizer": Sgd(lr=0.05, momentum=0.9),
    }
    return paceline.RunSpec(strategy=strategy, **(given_fields | fields))


def test_gradients_are_grouped_from_the_last_parameter_to_the_first():
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 3), nn.Linear(3, 2))
    replica = Replica(model)
    everything = cut(replica, 1 << 20)
    assert [(each.start, each.stop) for each in everything] == [(0, 151)]
    small = cut(replica, 4 * 40)  # the first layer's weights alone are more than that
    assert [(each.start, each.stop) for each in small] == [(140, 151), (100, 140), (0, 100)]
    assert [len(each.parameters) for each in small] == [3, 2, 1]


def test_what_auto_chose_is_in_the_result_and_changes_no_value(tmp_path):
    cluster = Local(transport="zmq")
    auto = run(spec_of(Ring(algorithm="auto"), cluster=cluster), out=tmp_path / "auto")
    for each in auto.workers:
        assert each.algorithm == "ring"  # of three workers, halving has no fewer hops
        assert each.round_trip_s is not None
        assert 0 < each.round_trip_s < 60
    plain = run(spec_of(Ring(), cluster=cluster), out=tmp_path / "plain")
    assert [each.algorithm for each in plain.workers] == [None] * 3
    assert plain.final_loss == pytest.approx(auto.final_loss, rel=1e-12)


def test_what_halving_sends_is_by_its_own_law():
    strategy, nodes = Ring(algorithm="halving"), {f"worker{n}": f"node{n}" for n in range(6)}
    flows = strategy.flows(nodes)
    assert flows is not None
    sent = {name: sum(flow.share for flow in flows if flow.sender == name) for name in nodes}
    # Of six, two pairs: one of each hands its values over and gets the sum back.
    assert [sent[name] for name in nodes] == [2.5, 1.0, 2.5, 1.0, 1.5, 1.5]
    assert Ring(algorithm="auto").flows(nodes) is None


def test_buckets_leave_in_one_order_whatever_order_they_are_finished_in():
    model = nn.Sequential(*(nn.Linear(3, 1, bias=False) for _ in range(4)))
    departures = SendOrder(cut(Replica(model), 1))
    first, second, third, fourth = model.parameters()
    assert departures.note(third) == []
    assert departures.note(fourth) == [0, 1]
    assert departures.note(first) == []  # the last one is kept for the end of the step
    assert departures.rest() == [2, 3]
    assert departures.note(second) == [2]
    assert departures.rest() == [3]
    assert departures.seen_order() == [1, 0, 2, 3]
    departures.order = departures.seen_order()
    departures.begin()
    assert departures.note(fourth) == []
    assert departures.note(third) == [1, 0]
    assert departures.rest() == [2, 3]


def test_the_one_who_waits_least_was_the_last_to_arrive():
    slots = Slots("worker2", ["worker0", "worker1", "worker2"])
    count = slots.num_values(4)
    assert count * 4 % 64 == 0
    assert count > 3
    # means over three ranks: waits of 0.9, 0.6 and 0.3 seconds, nobody wishes to stop
    slots.lie_in(torch.tensor([0.0, 0.3, 0.2, 0.1]))
    assert slots.read(waited_s=0.5) is False
    assert slots.times_last == 1
    assert slots.late_s == pytest.approx(0.6)
    values = torch.full((count,), 7.0)
    slots.lie_in(values)
    slots.write(last=True)
    assert values[:5].tolist() == [1.0, 0.0, 0.0, 0.5, 7.0]
    values /= 3
    assert slots.read(waited_s=0.5) is True


def test_slots_follow_who_is_there():
    slots = Slots("worker2", ["worker0", "worker1", "worker2"])
    slots.lie_in(torch.tensor([0.0, 0.3, 0.2, 0.1]))
    slots.read(waited_s=0.5)
    slots.follow(["worker0", "worker2"])
    values = torch.full((4,), 7.0)
    slots.lie_in(values)
    slots.write(last=False)
    assert values.tolist() == [0.0, 0.0, 0.5, 7.0]
    assert slots.times_last == 1  # what was counted is kept


@pytest.mark.parametrize("cluster", [Local(), ZMQ], ids=str)
def test_ring_equals_ps_sync_and_single(cluster, tmp_path):
    adam = Adam(lr=0.01)
    ring = spec_of(Ring(bucket_bytes=64), cluster=cluster, optimizer=adam)
    server = spec_of(PsSync(), cluster=cluster, optimizer=adam)
    alone = spec_of(Single(), num_workers=1, batch=24, optimizer=adam)
    ours, served, single = (run(each, out=tmp_path) for each in (ring, server, alone))
    assert_parameters_close(ours, served, tolerance=1e-9)
    assert_parameters_close(ours, single, tolerance=1e-9)


def test_ddp_equals_single_and_repeats(tmp_path):
    adam = Adam(lr=0.01)
    spec = spec_of(Ddp(bucket_bytes=100), optimizer=adam)
    once, again = run(spec, out=tmp_path), run(spec, out=tmp_path)
    alone = spec_of(Single(), cluster=Inline(), num_workers=1, batch=24, optimizer=adam)
    assert_parameters_close(once, again, tolerance=0.0)
    assert_parameters_close(once, run(alone, out=tmp_path), tolerance=1e-9)


def test_ddp_names_the_worker_that_dies(tmp_path):
    poisoned = Poisoned(way="die")
    spec = spec_of(Ddp(), workload=poisoned, worker_steps=None, epochs=1)
    with pytest.raises(SeatFailed, match=r"worker\d failed: killed by signal 9"):
        run(spec, out=tmp_path)


def test_ddp_ends_for_all_when_the_time_is_up(tmp_path):
    spec = spec_of(Ddp(), worker_steps=None, seconds=0.5)
    result = run(spec, out=tmp_path)
    assert len({worker.worker_steps for worker in result.workers}) == 1


@pytest.mark.parametrize("cluster", [Local(), ZMQ], ids=str)
def test_branches_unused_parameters_and_normalisation(cluster, tmp_path):
    spec = spec_of(Ring(bucket_bytes=1), workload=Branching(), cluster=cluster)
    ring = run(spec, out=tmp_path)
    alone = spec_of(Single(), num_workers=1, batch=24, workload=Branching())
    assert_parameters_close(ring, run(alone, out=tmp_path), tolerance=1e-9)
    assert len(ring.workers[0].buckets) == 10


@pytest.mark.parametrize("cluster", [Local(), ZMQ], ids=str)
def test_workers_that_drift_apart_are_named(cluster, tmp_path):
    spec = spec_of(Ring(check_every=10), workload=Drifting(), cluster=cluster)
    with pytest.raises(SeatFailed, match="after step 10 the parameters of worker1 differ from"):
        run(spec, out=tmp_path)


def test_drift_is_found_at_the_end_without_being_asked_for(tmp_path):
    with pytest.raises(SeatFailed, match="after step 30 the parameters of worker1 differ from"):
        run(spec_of(Ring(check_every=0), workload=Drifting()), out=tmp_path)


@pytest.mark.parametrize("strategy", [Ring(), Ddp()], ids=lambda each: each.name)
def test_a_mean_that_is_never_finite_fails_the_run(strategy, tmp_path):
    with pytest.raises(SeatFailed, match="all of its 30 steps were refused: a gradient is NaN"):
        run(spec_of(strategy, workload=Broken()), out=tmp_path)


def test_ddp_refuses_what_single_refuses(tmp_path):
    spec = spec_of(Ddp(), workload=Flawed(flaw="infinite"), worker_steps=None, epochs=2)
    result = run(spec, out=tmp_path)
    assert [worker.refused_because for worker in result.workers] == [{"infinite": 2}] * 3
    assert_parameters_close(result, run(alone(spec), out=tmp_path), tolerance=1e-9)


@pytest.mark.parametrize("cluster", [Local(), ZMQ], ids=str)
@pytest.mark.parametrize("strategy", [Ring(), Ring(bucket_bytes=1), Ddp()], ids=str)
def test_a_slow_worker_does_not_hide_in_the_waiting_of_the_others(strategy, cluster, tmp_path):
    result = run(spec_of(strategy, workload=Slow(), cluster=cluster), out=tmp_path)
    quick, slow, other = result.workers
    assert slow.times_last > 20
    assert slow.late_s > 10 * 0.02
    assert slow.late_s > max(quick.late_s, other.late_s)
    assert quick.exchange_s > slow.exchange_s


def test_what_became_of_each_bucket_is_kept(tmp_path):
    spec = spec_of(Ring(bucket_bytes=1 << 18), workload=Synthetic(bytes=2_000_000, layers=4))
    worker = run(spec, out=tmp_path).workers[0]
    assert len(worker.buckets) > 2
    num_bytes = sum(bucket.num_bytes for bucket in worker.buckets)
    # What was sent before the first step, to start from the same values, is not among it.
    assert worker.sent_bytes == pytest.approx(30 * num_bytes * 4 / 3, rel=0.01)
    starts = [bucket.start_s for bucket in worker.buckets]
    assert starts == sorted(starts)
    assert worker.hidden_s > 0
    for bucket in worker.buckets:
        assert 0 <= bucket.wait_s <= bucket.run_s
    in_flight_s = sum(bucket.run_s for bucket in worker.buckets)
    waited_s = sum(bucket.wait_s for bucket in worker.buckets)
    assert worker.hidden_s == pytest.approx(in_flight_s - waited_s, abs=1e-6)


def test_a_loss_that_is_back_propagated_twice_is_an_error(tmp_path):
    with pytest.raises(SeatFailed, match="a gradient was finished twice in one step"):
        run(spec_of(Ring(bucket_bytes=1), workload=Twice()), out=tmp_path)


@pytest.mark.parametrize("strategy", [Ring(), Ddp()], ids=lambda each: each.name)
def test_a_table_of_rows_is_held_whole_by_every_worker(strategy, tmp_path):
    fields = {"workload": Synthetic(features=100), "optimizer": Sgd(lr=0.1)}
    ours = run(spec_of(strategy, **fields), out=tmp_path)
    alone = spec_of(Single(), cluster=Inline(), num_workers=1, batch=24, **fields)
    assert_parameters_close(ours, run(alone, out=tmp_path), tolerance=1e-9)


def test_ddp_wants_processes():
    with pytest.raises(SpecError, match="ddp needs a process for each worker"):
        spec_of(Ddp(), cluster=Inline()).checked()
