"""Gradients that leave early, and parameters that come back late, change nothing that is learnt.

Seats are threads here: no process is started.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paceline import RunSpec
from paceline.clusters.inline import Inline
from paceline.compute.awaiting import Awaiting
from paceline.strategies.parameter_server.cuts import dealt
from paceline.strategies.parameter_server.describe import (
    ParameterServer,
    PsAsync,
    PsSsp,
    PsSync,
)
from paceline.strategies.parameter_server.finished_chunks import FinishedChunks
from paceline.testing import Moons
from paceline.training.optim import Adam
from paceline.training.replica import Replica
from tests.seats import Seats, seated

SMALL = 160  # bytes: the model of a test is several chunks then
LINKS = pytest.mark.parametrize("shared", [False, True], ids=["messages", "shared"])


def spec_of(strategy: ParameterServer) -> RunSpec:
    return RunSpec(
        workload=Moons(),
        strategy=strategy,
        cluster=Inline(),
        optimizer=Adam(),
        num_workers=3,
        batch=4,
        worker_steps=100,
        dtype="float64",
    )


def trained(strategy: ParameterServer, *, shared: bool, bad: dict[int, Any] | None = None) -> Any:
    """Six steps of three workers; `bad` has who spoils a gradient, and how."""
    with seated(spec_of(strategy), shared=shared) as seats:
        seats.start()
        seats.step_together(3)
        for rank, spoil in (bad or {}).items():
            spoil(seats.workers[rank].replica)
        seats.step_together(3)
        return _at_rest(seats)


def _at_rest(seats: Seats) -> tuple[Tensor, list[Any], list[bool]]:
    for worker in seats.workers:
        worker.member.is_looked_at = True
        worker.member.settle()
    values = [worker.replica.parameters.clone() for worker in seats.workers]
    seats.states()
    assert all(torch.equal(each, values[0]) for each in values)
    refused = [worker.place.refusals.table() for worker in seats.workers]
    return values[0], refused, [worker.member.overlaps for worker in seats.workers]


def spoil_first_layer(replica: Replica) -> None:
    """Make the first layer's next gradient no number; it is the last that is known."""
    first = next(iter(replica.places))
    handle: list[Any] = []

    def spoil(gradient: Tensor) -> Tensor:
        handle[0].remove()
        return gradient * torch.nan

    handle.append(first.register_hook(spoil))


@LINKS
@pytest.mark.parametrize("servers", [1, 3])
def test_synchronous_training_is_the_same_to_the_bit_with_and_without(servers, shared):
    plain, _, _ = trained(PsSync(overlap=False), shared=shared)
    split = PsSync(servers=servers, chunk_bytes=SMALL)
    values, _, overlaps = trained(split, shared=shared)
    assert overlaps == [True] * 3
    assert torch.equal(values, plain)


@LINKS
@pytest.mark.parametrize("servers", [1, 2])
def test_nan_in_one_workers_first_layer_undoes_what_was_applied_already(servers, shared):
    """It is known last: by then chunks of later layers were averaged, applied and sent ahead."""
    bad = {1: spoil_first_layer}
    values, refused, _ = trained(PsSync(servers=servers, chunk_bytes=SMALL), shared=shared, bad=bad)
    without, as_refused, _ = trained(PsSync(overlap=False), shared=shared, bad=bad)
    assert torch.isfinite(values).all()
    assert torch.equal(values, without)
    assert refused == as_refused
    assert [each["refused"] for each in refused] == [1, 1, 1]
    assert refused[1]["refused_because"] == {"NaN": 1}
    assert refused[0]["refused_because"] == {"of another worker": 1}


@LINKS
@pytest.mark.parametrize("make", [PsAsync, PsSsp], ids=["async", "ssp"])
@pytest.mark.parametrize(("refuse", "updates"), [("whole", 17), ("chunk", 18)])
def test_what_is_refused_of_a_push_is_all_of_it_or_the_chunk(make, refuse, updates, shared):
    strategy = make(chunk_bytes=SMALL, refuse=refuse)
    with seated(spec_of(strategy), shared=shared) as seats:
        seats.start()
        seats.step([0, 1, 2] * 3)
        keep = seats.servers[0].application.keep
        before = keep.state()["parameters"].clone()
        spoil_first_layer(seats.workers[1].replica)
        seats.step([1])
        seats.workers[1].member.await_parameters()
        after = keep.state()["parameters"]
        assert torch.isfinite(after).all()
        first, last = slice(0, keep.chunks[0].stop), slice(keep.chunks[-1].start, None)
        assert torch.equal(after[first], before[first])
        assert torch.equal(after[last], before[last]) == (refuse == "whole")
        seats.step([0, 2] + [0, 1, 2] * 2)
        assert seats.workers[1].place.refusals.table()["refused"] == 1
        assert keep.tally.updates == updates
        seats.states()


@LINKS
@pytest.mark.parametrize("servers", [1, 2])
def test_a_backup_workers_late_push_is_left_out_of_every_chunk(servers, shared):
    """Two of three make an update; the third then pushes a gradient of the parameters before."""

    def learnt(strategy: PsSync) -> Tensor:
        with seated(spec_of(strategy), shared=shared) as seats:
            seats.start()
            for _ in range(3):
                for worker in seats.workers[:2]:
                    _compute(worker)
                _end_step(seats.workers[:2])
                seats.step([2])
            late = seats.workers[2]
            late.member.await_parameters()
            keep = [server.application.keep for server in seats.servers]
            assert {(each.version, each.tally.dropped) for each in keep} == {(3, 3)}
            values = late.replica.parameters.clone()
            seats.states()
            return values

    plain = learnt(PsSync(backup=1, servers=servers, overlap=False))
    assert torch.equal(learnt(PsSync(backup=1, servers=servers, chunk_bytes=SMALL)), plain)


@LINKS
def test_a_bound_holds_and_a_release_brings_all_newest_parameters(shared):
    strategy = PsSsp(staleness=1, chunk_bytes=SMALL)
    with seated(spec_of(strategy), shared=shared) as seats:
        seats.start()
        first, second, third = seats.workers
        seats.step([0, 0])
        assert first.member._must_wait  # it is two steps ahead of those that made none
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(lambda: first.member.begin(last=False))
            seats.step([1])
            assert not begun.done()
            seats.step([2])
            begun.result(30)
        first.member.await_parameters()
        keep = seats.servers[0].application.keep
        assert keep.version == 4
        assert torch.equal(first.replica.parameters, keep.state()["parameters"])
        assert all(each.member.overlaps for each in (first, second, third))
        seats.states()


@LINKS
def test_of_two_servers_with_a_chunk_each_the_other_applies_its_own(shared):
    with seated(spec_of(PsAsync(servers=2, refuse="chunk")), shared=shared) as seats:
        seats.start()
        seats.step([0, 1, 2])
        keeps = [server.application.keep for server in seats.servers]
        assert [len(keep.chunks) for keep in keeps] == [1, 1]
        before = [keep.state()["parameters"].clone() for keep in keeps]
        spoil_first_layer(seats.workers[1].replica)
        seats.step([1])
        after = [keep.state()["parameters"] for keep in keeps]
        assert torch.equal(after[0], before[0])
        assert torch.isfinite(after[1]).all()
        assert not torch.equal(after[1], before[1])
        seats.states()


def test_a_model_of_one_chunk_is_exchanged_as_before():
    with seated(spec_of(PsSync())) as seats:
        assert not any(worker.member.overlaps or worker.member.awaits for worker in seats.workers)


def test_messages_let_a_forward_pass_begin_early_and_shared_memory_has_no_need_to():
    strategy = PsSync(chunk_bytes=SMALL)
    for shared in (False, True):
        with seated(spec_of(strategy), shared=shared) as seats:
            assert [worker.member.awaits for worker in seats.workers] == [not shared] * 3


def test_a_server_beside_every_worker():
    spec = replace(spec_of(PsSync(servers="auto")), num_workers=4).checked()
    assert spec.strategy.num_servers == 4
    assert len(spec.strategy.flows({"worker0": "node0"})) == 8


@LINKS
@pytest.mark.parametrize("make", [PsSync, PsAsync], ids=["sync", "async"])
@pytest.mark.parametrize("pulls", [1, 3, 4])
def test_parameters_that_are_only_looked_at_are_no_pushes(pulls, make, shared):
    """However often: evaluations and savings may come one after the other."""
    with seated(spec_of(make(chunk_bytes=SMALL)), shared=shared) as seats:
        seats.start()
        for _ in range(3):
            seats.step_together(1)
            for _ in range(pulls):
                seats.workers[0].member.settle()
        seats.states()
        assert seats.servers[0].application.keep.tally.updates == (3 if make is PsSync else 9)


def test_who_comes_late_does_not_go_on_with_what_is_undone():
    """Others' next update is sent ahead while it copies, and then refused."""
    with seated(spec_of(PsSync(backup=1, chunk_bytes=SMALL)), shared=True) as seats:
        seats.start()
        first, second, late = seats.workers
        keep = seats.servers[0].application.keep
        for each in (first, second):
            _compute(each)
        _end_step([first, second])
        late.member._link._open_servers()
        kept = late.member._link._servers[0]
        copy, spoilt = kept.copy, []

        def copy_late(index: int) -> None:
            if not spoilt:
                spoilt.append(index)
                spoil_first_layer(first.replica)
                for each in (first, second):
                    _compute(each)
                while first.member.overlaps and not keep.is_tentative:
                    time.sleep(0.001)
            copy(index)

        kept.copy = copy_late
        seats.step([2])
        _end_step([first, second])
        assert spoilt
        assert (keep.version, keep.is_tentative) == (1, False)
        assert torch.equal(late.replica.parameters, keep.state()["parameters"])
        seats.states()


def _compute(worker: Any) -> None:
    worker.session.compute(worker.session.next_batch())


def _end_step(workers: list[Any]) -> None:
    """Have workers that have computed exchange together."""

    def end(worker: Any) -> None:
        worker.session.exchange()
        worker.session.pause()

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(end, workers))


def test_a_chunk_without_values_leaves_too():
    """The server that has no other cannot end its update before."""
    replica = Replica(nn.Linear(2, 1))
    chunks = [chunk for each in dealt(3, 5, 1) for chunk in each]
    departures = FinishedChunks(replica, chunks)
    leaving = [chunk for each in replica.places for chunk in departures.note(each)]
    assert {*leaving, *departures.rest()} == {*chunks}


# What a forward pass waits for.


class Odd(nn.Module):
    """Uses a weight of a part that it never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called = nn.Linear(2, 2)
        self.only_read = nn.Linear(2, 2)

    def forward(self, values: Tensor) -> Tensor:
        return nn.functional.linear(self.called(values), self.only_read.weight)


def test_a_parameter_that_is_used_before_its_module_is_called_is_waited_for_at_the_start():
    replica = Replica(Odd())
    model: Any = replica.model
    asked: list[Any] = []

    def wait(parameters: Any) -> int:
        asked.append(None if parameters is None else set(parameters))
        return 0

    awaiting = Awaiting(replica, wait, lambda _: None)
    with awaiting.forward(closely=True):
        model(torch.ones(1, 2))
    asked.clear()
    with awaiting.forward(closely=False):
        model(torch.ones(1, 2))
    own = {model.called.weight, model.called.bias}
    assert asked == [{model.only_read.weight}, own]
