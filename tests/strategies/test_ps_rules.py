"""What the three parameter servers promise beyond what every strategy does."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.errors import SpecError
from paceline.strategies.parameter_server.cuts import dealt
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from paceline.strategies.parameter_server.rules import Bounded
from paceline.strategies.parameter_server.tags import pack, unpack
from paceline.testing import Moons
from paceline.testing.strategies import alone, assert_parameters_close, parameters_of
from paceline.training.optim import Adagrad, Adam, Sgd
from paceline.training.schedules import Step
from paceline.workloads.base import Workload
from paceline.workloads.order import Order
from paceline.workloads.synthetic import Synthetic
from tests.sharing import run

QUIET = paceline.Record(tensorboard=False, monitor=False)


def spec_of(strategy, **fields):
    given_fields = {
        "workload": Moons(),
        "cluster": Inline(),
        "num_workers": 3,
        "batch": 8,
        "worker_steps": 50,
        "dtype": "float64",
        "record": QUIET,
        "optimizer": Sgd(lr=0.05),
    }
    return paceline.RunSpec(strategy=strategy, **(given_fields | fields))


@given(
    num_workers=st.integers(1, 5),
    staleness=st.integers(0, 4),
    choices=st.lists(st.integers(0, 10**6), max_size=200),
)
def test_no_worker_ever_starts_further_ahead_than_its_bound(num_workers, staleness, choices):
    admission = Bounded(range(num_workers), staleness)
    completed = [0] * num_workers
    may_go = set(range(num_workers))
    for choice in choices:
        worker = sorted(may_go)[choice % len(may_go)]
        completed[worker] += 1
        may_go.discard(worker)
        if admission.complete(worker):
            may_go.add(worker)
        may_go.update(admission.released())
        assert may_go, "everyone waits"
        assert all(completed[each] - min(completed) <= staleness for each in may_go)


def test_a_worker_that_leaves_holds_up_nobody():
    admission = Bounded(range(2), staleness=0)
    assert not admission.complete(0)
    admission.leave(1)
    assert admission.released() == [0]
    assert admission.released() == []


def test_a_worker_that_comes_is_as_far_as_the_slowest():
    admission = Bounded([1, 4], staleness=1)
    for _ in range(2):
        assert admission.complete(1)
        assert admission.complete(4)
    admission.join(0)
    assert admission.complete(4)
    assert admission.complete(0)
    assert not admission.complete(4)  # 1 has two steps behind it, and so had 0 when it came
    assert admission.complete(1)
    assert admission.released() == [4]


@given(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=200))
def test_the_bound_holds_whoever_comes_and_goes(staleness, choices):
    admission = Bounded(range(3), staleness)
    clocks = dict.fromkeys(range(3), 0)
    may_go = set(clocks)
    for choice, changes in choices:
        worker = choice % 5
        if changes and worker not in clocks:
            clocks[worker] = min(clocks.values())
            admission.join(worker)
            may_go.add(worker)
        elif changes and len(clocks) > 1:
            del clocks[worker]
            admission.leave(worker)
            may_go.discard(worker)
        else:
            worker = sorted(may_go)[choice % len(may_go)]
            clocks[worker] += 1
            if not admission.complete(worker):
                may_go.discard(worker)
        may_go.update(admission.released())
        assert may_go, "everyone waits"
        assert all(clocks[each] - min(clocks.values()) <= staleness for each in may_go)


@pytest.mark.parametrize("cluster", [Inline(), Local()], ids=lambda each: each.name)
def test_bound_0_equals_synchronous_at_as_many_times_the_learning_rate(cluster, tmp_path):
    bounded = run(spec_of(PsSsp(staleness=0), cluster=cluster), out=tmp_path)
    together = spec_of(PsSync(), cluster=cluster, optimizer=Sgd(lr=3 * 0.05))
    assert_parameters_close(bounded, run(together, out=tmp_path), tolerance=1e-9)


def test_a_bound_keeps_staleness_low(tmp_path):
    result = run(spec_of(PsSsp(staleness=1), worker_steps=200), out=tmp_path)
    # each of the two others can complete at most this many steps between a pull and a push
    assert result.staleness.max <= 2 * (2 * 1 + 1)


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
@pytest.mark.parametrize("transport", ["shared", "zmq"])
def test_any_number_of_servers_over_both_transports_gives_the_same(servers, transport, tmp_path):
    split = PsSync(servers=servers, chunk_bytes=160)
    ours = run(spec_of(split, cluster=Local(transport=transport)), out=tmp_path)
    assert_parameters_close(ours, run(spec_of(PsSync()), out=tmp_path), tolerance=0.0)
    assert len(ours.servers) == servers
    assert {each.updates for each in ours.servers} == {50}


@pytest.mark.parametrize("strategy", [PsAsync(), PsAsync(servers=2), PsSsp(staleness=2), PsSync()])
def test_the_number_of_global_steps_is_kept_to_exactly(strategy, tmp_path):
    for cluster in (Inline(), Local()):
        spec = replace(spec_of(strategy, cluster=cluster), worker_steps=None, steps=100)
        result = run(spec, out=tmp_path)
        assert result.global_steps == 100
        assert {each.updates for each in result.servers} == {100}


@pytest.mark.parametrize("strategy", [PsAsync(servers=2), PsSsp(staleness=0)], ids=str)
def test_workers_for_whom_there_is_no_step_make_none(strategy, tmp_path):
    for cluster in (Inline(), Local()):
        spec = replace(spec_of(strategy, cluster=cluster), worker_steps=None, steps=2)
        result = run(spec, out=tmp_path)
        assert result.global_steps == 2
        assert {each.updates for each in result.servers} == {2}
        assert [each.worker_steps for each in result.workers] == [1, 1, 0]
        assert np.isfinite(result.final_loss)
        assert result.warnings == ()


def test_synchronous_steps_are_of_all_workers_however_few(tmp_path):
    spec = replace(spec_of(PsSync()), worker_steps=None, steps=1)
    result = run(spec, out=tmp_path)
    assert result.global_steps == 1
    assert [each.worker_steps for each in result.workers] == [1, 1, 1]


def test_asynchronous_updates_are_stale_and_every_one_is_counted(tmp_path):
    result = run(spec_of(PsAsync(), worker_steps=100, cluster=Local()), out=tmp_path)
    assert sum(result.staleness.histogram.values()) == 300 == result.servers[0].updates
    assert 0 < result.staleness.mean <= result.staleness.max
    assert f"mean staleness {result.staleness.mean:.1f}" in result.meaning


def test_synchronous_updates_are_never_stale_and_somebody_is_last(tmp_path):
    result = run(spec_of(PsSync()), out=tmp_path)
    assert result.staleness.max == 0
    assert sum(worker.times_last for worker in result.workers) == 50
    assert result.meaning == "synchronous, strict, 3 of 3 gradients"


def test_with_a_backup_worker_late_gradients_are_dropped_and_counted(tmp_path):
    spec = replace(spec_of(PsSync(backup=1), cluster=Local()), worker_steps=None, steps=200)
    result = run(spec, out=tmp_path)
    assert result.global_steps == 200
    assert result.servers[0].dropped > 0
    # every update took two gradients; what is left over was dropped or came after the end
    assert 0 <= result.worker_steps - 2 * 200 - result.servers[0].dropped <= 3


def test_bytes_are_counted_by_seat(tmp_path):
    num_bytes = 8 * (2 * 16 + 16 + 16 * 2 + 2)
    for cluster in (Local(), Local(transport="zmq")):
        result = run(spec_of(PsSync(), cluster=cluster), out=tmp_path)
        assert [worker.sent_bytes for worker in result.workers] == [50 * num_bytes] * 3
        # worker 0 fetched the parameters once more, for the final evaluation
        assert result.workers[1].received_bytes == 50 * num_bytes
        rows = polars.read_parquet(Path(result.run) / "steps.parquet")
        counted = rows.group_by("seat").agg(polars.col("sent_bytes", "received_bytes").max())
        assert counted["sent_bytes"].to_list() == [50 * num_bytes] * 3
        assert counted["received_bytes"].to_list() == [50 * num_bytes] * 3


class NanAtRow(Workload):
    """One row of the data makes the loss, and so the gradient, not a number."""

    def model(self):
        return Moons().model()

    def data(self, split, dtype):
        data = Moons().data(split, dtype)
        if split == "train":
            data.columns[0][7] = float("nan")
        return data

    def num_rows(self):
        return Moons().rows


class NanInSparseRows(Workload):
    """One label is no number, and so are the gradients of its row's features, and of the bias."""

    _sparse = Synthetic(rows=1200, features=100, nonzeros=5)

    def model(self):
        return self._sparse.model()

    def data(self, split, dtype):
        data = self._sparse.data(split, dtype)
        if split == "train":
            data.labels[7] = float("nan")
        return data

    def loss(self, model, batch):
        return self._sparse.loss(model, batch)

    def metrics(self, model, batch):
        return self._sparse.metrics(model, batch)

    def num_rows(self):
        return self._sparse.rows


@pytest.mark.parametrize("strategy", [PsAsync(), PsSync(), PsSsp(staleness=1)], ids=str)
@pytest.mark.parametrize("transport", ["shared", "zmq"])
def test_a_gradient_that_is_no_number_is_refused_and_spoils_nothing(strategy, transport, tmp_path):
    spec = spec_of(strategy, workload=NanAtRow(), cluster=Local(transport=transport))
    spec = replace(spec, worker_steps=None, epochs=2)
    result = run(spec, out=tmp_path)
    assert sum(worker.refused_because.get("NaN", 0) for worker in result.workers) == 2
    assert result.servers[0].refused == 2  # once an epoch
    # Where one gradient of an update is not finite, the whole update is refused.
    assert result.refused_steps == (6 if strategy.equals_single else 2)
    assert result.global_steps == (38 if strategy.equals_single else 118)
    assert result.servers[0].updates == result.global_steps
    assert np.isfinite(result.test_loss)
    assert np.isfinite(result.final_loss)


@pytest.mark.parametrize("transport", ["shared", "zmq"])
def test_a_refused_update_of_a_sparse_model_is_that_of_one_worker(transport, tmp_path):
    fields = {"workload": NanInSparseRows(), "optimizer": Sgd(lr=0.5)}
    spec = spec_of(PsSync(servers=2), cluster=Local(transport=transport), **fields)
    result = run(spec, out=tmp_path)
    assert {worker.refused for worker in result.workers} == {result.workers[0].refused}
    assert 0 < result.workers[0].refused < 50
    assert_parameters_close(result, run(alone(spec), out=tmp_path), tolerance=1e-9)


def test_a_backup_worker_does_not_make_up_for_a_gradient_that_is_no_number(tmp_path):
    spec = spec_of(PsSync(backup=1), workload=NanAtRow(), worker_steps=None, steps=60)
    result = run(spec, out=tmp_path)
    assert result.global_steps == result.servers[0].updates == 60
    assert min(map(int, result.staleness.histogram)) == 0
    assert np.isfinite(result.test_loss)


def test_more_backup_workers_than_workers_is_refused():
    with pytest.raises(SpecError, match=r"strategy\.backup = 3"):
        spec_of(PsSync(backup=3)).checked()


@given(
    num_values=st.integers(0, 5000), num_servers=st.integers(1, 8), per_chunk=st.integers(1, 900)
)
def test_servers_and_chunks_cover_every_value_once(num_values, num_servers, per_chunk):
    cut = dealt(num_values, num_servers, per_chunk)
    for server, its in enumerate(cut):
        assert [(chunk.server, chunk.index) for chunk in its] == [
            (server, index) for index in range(len(its))
        ]
    chunks = sorted((chunk for its in cut for chunk in its), key=lambda chunk: chunk.start)
    covered = [value for chunk in chunks for value in range(chunk.start, chunk.stop)]
    assert covered == list(range(num_values))
    assert all(chunk.num_values <= per_chunk for chunk in chunks)


@given(st.integers(1, 5_000_000), st.integers(1, 8), st.sampled_from([100, 1000, 1 << 18]))
def test_servers_have_equal_parts_of_every_stretch_of_the_model(num_values, num_servers, per_chunk):
    cut = dealt(num_values, num_servers, per_chunk)
    sizes = [sum(chunk.num_values for chunk in its) for its in cut]
    longest = max(chunk.num_values for its in cut for chunk in its)
    assert max(sizes) - min(sizes) <= max(longest, 16 * len(cut[0]) + 16)
    # Back-propagation finishes the end first: of it, too, every server has its part.
    assert max(its[-1].stop for its in cut) - min(its[-1].start for its in cut) <= (
        (num_servers + 1) * (longest + 16)
    )


def test_chunks_smaller_than_a_value_are_values_and_too_many_are_refused():
    assert [chunk.stop - chunk.start for chunk in dealt(3, 1, 0)[0]] == [1, 1, 1]
    with pytest.raises(SpecError, match=r"strategy\.chunk_bytes = '2 values': .* 1,048,577"):
        dealt(2 * 2**20 + 2, 1, 2)


@pytest.mark.timeout(120)
def test_a_worker_that_is_released_while_it_rests_holds_up_no_server(tmp_path):
    """Forty megabytes do not fit in what lies between a server and a worker that does not read."""
    spec = spec_of(
        PsSsp(staleness=0),
        workload=Synthetic(bytes=80_000_000),
        cluster=Local(transport="zmq"),
        dtype="float32",
        batch=4,
        worker_steps=None,
        steps=9,
        eval_every=2,
        eval_samples=8,
        record=replace(QUIET, model=False),
    )
    assert run(spec, out=tmp_path).status == "finished"


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 2**20 - 1), st.integers(0, 1023)
)
def test_tags_round_trip(version, push, chunk, flags):
    tag = pack(version, chunk, flags, push)
    assert tag < 2**64
    assert unpack(tag) == (version, push, chunk, flags)


SPARSE = Synthetic(features=500, nonzeros=5, rows=600)


def sparse_spec(strategy, **fields):
    return spec_of(strategy, workload=SPARSE, batch=10, worker_steps=20, **fields)


SPARSE_OPTIMIZERS = (
    Sgd(lr=0.5),
    Adagrad(lr=0.1, schedule=Step(every_steps=5, warmup_steps=3)),
    Adam(lr=0.01),
)


@pytest.mark.parametrize("optimizer", SPARSE_OPTIMIZERS, ids=str)
def test_the_sparse_path_equals_single_at_as_many_times_the_batch(optimizer, tmp_path):
    wanted = run(alone(sparse_spec(PsSync(), optimizer=optimizer)), out=tmp_path)
    for servers in (1, 3):
        for cluster in (Inline(), Local(), Local(transport="zmq")):
            ours = sparse_spec(PsSync(servers=servers), optimizer=optimizer, cluster=cluster)
            assert_parameters_close(run(ours, out=tmp_path), wanted, tolerance=1e-9)


@pytest.mark.parametrize("cluster", [Inline(), Local(), Local(transport="zmq")])
def test_the_sparse_path_learns_asynchronously(cluster, tmp_path):
    workload = Synthetic(features=200, nonzeros=5, rows=2000)
    spec = spec_of(
        PsAsync(servers=2),
        workload=workload,
        cluster=cluster,
        batch=20,
        worker_steps=300,
        optimizer=Sgd(lr=1.0),
    )
    assert run(spec, out=tmp_path).test_accuracy > 0.8


def test_only_touched_rows_travel(tmp_path):
    spec = sparse_spec(PsSync(), cluster=Local(transport="zmq"))
    result = run(spec, out=tmp_path)
    # a step touches at most 50 rows: their numbers twice (pull, push) and their gradients, and
    # the bias; the table would be 4,000 bytes a step
    assert result.workers[1].sent_bytes <= 20 * (50 * (8 + 8 + 8) + 8)


def one_step_behind(num_steps: int, lr: float) -> tuple[np.ndarray, float]:
    """Each gradient is that of the weights before the last update; the bias is the newest."""
    data = SPARSE.data("train", torch.float64)
    order = Order(num_rows=SPARSE.rows, num_workers=1, batch=10, seed=0)
    weights = seen = torch.zeros(SPARSE.features, dtype=torch.float64)
    bias = 0.0
    for rows in islice(order.batches(0), num_steps):
        inputs = functional.one_hot(data.features[rows], SPARSE.features).sum(1).double()
        errors = torch.sigmoid(inputs @ seen + bias) - data.labels[rows]
        seen, weights = weights, weights - lr * (inputs.T @ errors) / len(rows)
        bias -= lr * float(errors.mean())
    return weights.numpy(), bias


@pytest.mark.parametrize("strategy", [PsAsync(prefetch=True), PsSsp(staleness=0, prefetch=True)])
@pytest.mark.parametrize("servers", [1, 3])
def test_prefetched_rows_are_one_update_old_and_counted_as_such(strategy, servers, tmp_path):
    strategy = replace(strategy, servers=servers)
    spec = sparse_spec(strategy, num_workers=1, optimizer=Sgd(lr=0.5))
    result = run(spec, out=tmp_path)
    weights, bias = one_step_behind(20, lr=0.5)
    kept = parameters_of(result)
    np.testing.assert_allclose(kept.pop("rows")[:, 0], weights, rtol=0, atol=1e-12)
    assert kept.popitem()[1] == pytest.approx(bias)
    assert result.staleness.histogram == {"0": 1, "1": 19}


def test_looking_at_other_rows_in_between_gives_up_what_was_prefetched(tmp_path):
    spec = sparse_spec(PsAsync(prefetch=True), num_workers=1, eval_every=5)
    result = run(spec, out=tmp_path)
    # after the first step and each of three evaluations the rows were fetched anew
    assert result.staleness.histogram == {"0": 4, "1": 16}


def test_workers_that_prefetch_learn(tmp_path):
    spec = spec_of(
        PsAsync(servers=2, prefetch=True),
        workload=Synthetic(features=200, nonzeros=5, rows=2000),
        cluster=Local(transport="zmq"),
        batch=20,
        worker_steps=300,
        optimizer=Sgd(lr=1.0),
    )
    result = run(spec, out=tmp_path)
    assert result.test_accuracy > 0.8
    assert result.staleness.mean > 1


def test_through_shared_memory_rows_are_never_older_than_need_be(tmp_path):
    spec = sparse_spec(PsAsync(prefetch=True), num_workers=1, cluster=Local())
    assert run(spec, out=tmp_path).staleness.max == 0


def test_synchronous_updates_do_not_prefetch():
    table = {"workload": "synthetic", "strategy": {"name": "ps-sync", "prefetch": True}}
    with pytest.raises(SpecError, match=r"strategy\.prefetch = True: no such field"):
        paceline.RunSpec.from_table(table)
