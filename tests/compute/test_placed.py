"""Computing on a device with memory of its own: the same numbers, and nothing copied by accident.

There is no GPU here: `cpu-copy` stands in for one, everything but its kernels.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from paceline.compute.devices import COPIED, CopiedCpu, device_of, is_placed, note_of
from paceline.compute.placed import Placed
from paceline.compute.real import Real
from paceline.engine.driver import run
from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.testing.sharing import shared_zygote
from paceline.training.replica import Replica


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def loss(module, batch):
    inputs, targets = batch
    return functional.cross_entropy(module(inputs), targets)


def batch(seed: int):
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 3, (16,), generator=draw)
    return torch.randn(16, 6, generator=draw), targets


def both(ready=None):
    near, far = Replica(model()), Replica(model())
    return near, Real(loss, near, None), far, Placed(loss, far, ready, CopiedCpu())


def test_gradients_and_losses_are_those_of_the_host():
    near, real, far, placed = both()
    for seed in range(3):
        assert placed.gradients(batch(seed)) == real.gradients(batch(seed))
        assert torch.equal(far.gradients, near.gradients)
        for each in (near, far):  # a strategy's part
            each.parameters.sub_(each.gradients, alpha=0.1)
    placed.settle()
    ours, theirs = dict(near.model.named_buffers()), dict(far.model.named_buffers())
    assert all(torch.equal(theirs[name], each) for name, each in ours.items())
    assert theirs["1.num_batches_tracked"] == 3


def test_a_step_of_several_batches_is_their_mean():
    near, real, far, placed = both()
    for each in (real, placed):
        each.accumulate(batch(0))
        each.gradients(batch(1))
    assert torch.equal(far.gradients, near.gradients)


def test_each_gradient_is_at_the_host_when_it_is_said_to_be_ready():
    seen = []
    near, real, far, placed = both(lambda parameter: seen.append((parameter, values(parameter))))

    def values(parameter):
        return far.gradients[far.places[parameter]].clone()

    placed.gradients(batch(0))
    real.gradients(batch(0))
    assert [each for each, _ in seen][-1] is not list(far.places)[-1]  # the last layer is first
    whole = dict(zip(far.places, near.places.values(), strict=True))
    assert len(seen) == len(whole)
    for parameter, found in seen:
        assert torch.equal(found, near.gradients[whole[parameter]])


@pytest.mark.parametrize("what", ["batch", "parameters", "gradients"])
def test_what_was_not_copied_cannot_be_computed_with(what):
    replica = Replica(model())
    given = batch(0)
    kept = {
        "batch": given[0],
        "parameters": replica.parameters[:6],
        "gradients": replica.gradients[:6],
    }[what]

    def careless(module, there):
        return loss(module, (there[0] + kept, there[1]))

    placed = Placed(careless, replica, None, CopiedCpu())
    with pytest.raises(RuntimeError, match=f"a tensor of the host, and others on {COPIED}"):
        placed.gradients(given)


def table(device: str, strategy: str = "ring", workers: int = 2) -> dict:
    return {
        "workload": {"name": "logistic-mnist", "subset": "tenth"},
        "strategy": {"name": strategy},
        "cluster": {"name": "local"},
        "num_workers": workers,
        "device": device,
        "steps": 20,
        "eval_samples": 100,
        "threads": 1,
        "record": {"tensorboard": False},
    }


@pytest.mark.parametrize("strategy", ["ring", pytest.param("ps-sync", marks=pytest.mark.thorough)])
def test_a_whole_run_comes_to_the_same(strategy, tmp_path):
    here, there = (
        run(RunSpec.from_table(table(device, strategy)), out=tmp_path, zygote=shared_zygote())
        for device in ("cpu", COPIED)
    )
    assert there.final_loss == pytest.approx(here.final_loss, rel=1e-5)
    assert there.test_loss == pytest.approx(here.test_loss, rel=1e-5)
    assert there.device == COPIED
    assert any("for tests" in each for each in there.warnings)


def test_which_names_are_devices():
    assert all(map(is_placed, ("cuda", "cuda:0", "cuda:12", COPIED)))
    assert not any(map(is_placed, ("cpu", "replay:k80", "cuda:", "cuda:x", "cudas")))
    assert "never run on a GPU" in note_of("cuda:1")
    with pytest.raises(SpecError, match="no such device"):
        RunSpec.from_table(table("cuda:x"))
    with pytest.raises(SpecError, match="not there on another device"):
        RunSpec.from_table(table("cuda", "ddp"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(SpecError, match="device = 'cuda': torch finds no GPU here"):
        device_of("cuda")
