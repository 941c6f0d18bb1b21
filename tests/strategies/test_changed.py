"""Parameters that something other than the optimizer changes: kept, or an error that names them."""

from typing import Literal, final

import pytest
import torch
from torch import nn

from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.compute.real import Real
from paceline.engine.fingerprint import difference, state_sums
from paceline.errors import Changed, SeatFailed
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.strategies.local import Single, Solo
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from paceline.testing.strategies import alone, assert_parameters_close
from paceline.testing.workloads import _Points
from paceline.training.replica import Replica
from paceline.workloads.base import Batch
from tests.sharing import run
from tests.strategies.odd_workloads import Branching, OwnMind
from tests.strategies.test_ring_rules import spec_of

EVERY = [Single(), Solo(), PsAsync(), PsSync(), PsSsp(staleness=1), Ring()]
SERVED = [PsAsync(), PsSync(servers=2), PsSsp(staleness=1)]
Way = Literal["unfreeze", "freeze", "data", "grad", "clamp", "clamp data"]


@final
class Changing(_Points):
    """A model to which its own loss does something at the fifth step, or to be exact at each."""

    way: Way = "clamp"

    def model(self) -> nn.Module:
        model = super().model()
        if self.way == "unfreeze":
            model[0].weight.requires_grad_(False)
        return model

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        model.num_steps = getattr(model, "num_steps", 0) + 1
        weight = next(model.parameters())
        if self.way == "clamp":
            with torch.no_grad():
                weight.clamp_(-0.3, 0.3)
        elif self.way == "clamp data":
            weight.data.clamp_(-0.3, 0.3)
        elif model.num_steps == 5:
            self._change(weight)
        return super().loss(model, batch)

    def _change(self, weight: nn.Parameter) -> None:
        if self.way == "data":
            weight.data = weight.data.clone()
        elif self.way == "grad":
            weight.grad = None
        else:
            weight.requires_grad_(self.way == "unfreeze")


def changing(strategy, way: Way, **fields):
    num_workers = 1 if isinstance(strategy, Single) else 3
    given = {"cluster": Inline(), "num_workers": num_workers, "workload": Changing(way=way)}
    return spec_of(strategy, **(given | fields))


WORDS = {
    "unfreeze": r"parameter '0\.weight' began to require a gradient after training had begun",
    "freeze": r"parameter '0\.weight' no longer requires a gradient",
    "data": r"the memory of parameter '0\.weight' was replaced",
    "grad": r"the gradient of parameter '0\.weight' was replaced",
}


@pytest.mark.parametrize("strategy", EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("way", ["unfreeze", "data"])
def test_what_is_laid_out_anew_while_training_is_an_error(strategy, way, tmp_path):
    with pytest.raises(SeatFailed, match=f"failed: {WORDS[way]}"):
        run(changing(strategy, way), out=tmp_path)


@pytest.mark.parametrize("way", WORDS)
def test_each_way_of_doing_so_is_told_apart(way):
    workload = Changing(way=way)
    replica = Replica(workload.model())
    compute = Real(workload.loss, replica, None)
    data = workload.data("train", torch.float32)
    for number in range(4):
        compute.gradients(data.take(torch.arange(8) + 8 * number))
        compute.check()
    compute.gradients(data.take(torch.arange(8)))
    with pytest.raises(Changed, match=WORDS[way]):
        compute.check()


@pytest.mark.parametrize(
    ("strategy", "way", "cluster"),
    [
        (Ring(), "clamp", Inline()),
        (Ring(), "clamp data", Inline()),
        (Ddp(), "clamp data", Local()),
    ],
)
def test_a_change_in_place_stays_where_workers_keep_their_own(strategy, way, cluster, tmp_path):
    spec = changing(strategy, way, cluster=cluster)
    ours, single = run(spec, out=tmp_path), run(alone(spec), out=tmp_path)
    assert_parameters_close(ours, single, tolerance=1e-9)


def test_single_with_a_change_in_place_is_a_plain_torch_loop():
    workload = Changing(way="clamp data")
    torch.manual_seed(0)
    replica = Replica(workload.model(), torch.float64)
    compute = Real(workload.loss, replica, None)
    torch.manual_seed(0)
    model = workload.model().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    data = workload.data("train", torch.float64)
    for number in range(10):
        batch = data.take(torch.arange(8) + 8 * number)
        compute.gradients(batch)
        compute.check()
        replica.parameters.add_(replica.gradients, alpha=-0.5)
        optimizer.zero_grad()
        workload.loss(model, batch).backward()
        optimizer.step()
    expected = torch.cat([each.detach().flatten() for each in model.parameters()])
    torch.testing.assert_close(replica.parameters, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", ["clamp", "clamp data"])
@pytest.mark.parametrize("strategy", SERVED, ids=lambda each: each.name)
def test_a_change_in_place_is_an_error_where_servers_keep_the_parameters(strategy, way, tmp_path):
    with pytest.raises(SeatFailed, match=r"parameter '0\.weight' was changed while the loss was"):
        run(changing(strategy, way), out=tmp_path)


@pytest.mark.parametrize("strategy", [Solo(), PsSync(), Ring()], ids=lambda each: each.name)
def test_workers_that_draw_values_of_their_own_are_named(strategy, tmp_path):
    seat = r"(worker|server)\d"
    words = rf"{seat} failed: at the start its '0\.weight' differs from that of {seat}"
    with pytest.raises(SeatFailed, match=words):
        run(spec_of(strategy, workload=OwnMind(), cluster=Inline()), out=tmp_path)


def test_the_seat_that_differs_from_the_others_is_the_one_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    usual = state_sums(model)
    with torch.no_grad():
        model[1].running_mean.add_(1)
    seats = {"worker0": usual, "worker1": state_sums(model), "worker2": usual, "monitor0": {}}
    seat, reason = difference(seats)
    assert seat == "worker1"
    assert "'1.running_mean' differs from that of worker2" in reason
    assert difference({"worker0": usual, "worker1": dict(usual)}) is None


def test_of_very_many_parameters_the_rest_has_one_sum():
    model = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(8000))
    usual = state_sums(model)
    assert len(str(usual)) < 1 << 17
    with torch.no_grad():
        model[7999].add_(1)
    assert (
        "one of the parameters after the first"
        in difference({"worker0": usual, "worker1": state_sums(model)})[1]
    )


@final
class Mixed(_Points):
    """A layer of another precision than the run's."""

    def model(self) -> nn.Module:
        model = super().model()
        model[0].to(torch.bfloat16)
        return model


def test_a_dtype_that_is_not_kept_is_told(tmp_path):
    spec = changing(Single(), "clamp", workload=Mixed(), dtype="float32")
    told = " ".join(run(spec, out=tmp_path).warnings)
    assert "'0.weight' and 1 more of the model is bfloat16, and is trained as float32" in told
    double = nn.Linear(2, 2).double()
    assert "is float64, and is trained as float32" in Replica(double).converted
    assert Replica(nn.Linear(2, 2).double(), torch.float64).converted == ""
    assert Replica(nn.Linear(2, 2), torch.float64).converted == ""


def test_ddp_names_parameters_that_a_step_does_not_use(tmp_path):
    spec = spec_of(Ddp(), workload=Branching())
    words = r"no gradient: unused\.weight, unused\.bias.*strategy\.find_unused = true"
    with pytest.raises(SeatFailed, match=words):
        run(spec, out=tmp_path)


def test_ddp_trains_without_them_when_asked_to_look(tmp_path):
    spec = spec_of(Ddp(find_unused=True), workload=Branching())
    ours, single = run(spec, out=tmp_path), run(alone(spec), out=tmp_path)
    assert_parameters_close(ours, single, tolerance=1e-9)
