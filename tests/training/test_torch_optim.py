"""torch's optimizers by name: each of torch.optim is equal in stretches, or refused."""

import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from paceline.engine import driver
from paceline.errors import SpecError
from paceline.parts import build_part
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.testing.workloads import Moons
from paceline.training.optim import OPTIMIZERS, Sgd, Update
from paceline.training.row_update import values_per_row
from tests.training.test_sliced import CLASSES

REFUSED = {"Adafactor", "LBFGS", "Muon", "SparseAdam"}
OPTIONS = {
    "SGD": [{"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}, {}],
    "Adam": [{"amsgrad": True, "betas": [0.8, 0.95]}],
    "RMSprop": [{"momentum": 0.5, "centered": True}],
    "Adagrad": [{"initial_accumulator_value": 0.1, "lr_decay": 0.01}],
}
CASES = [(name, each) for name in CLASSES for each in OPTIONS.get(name, [{}])]


def described(name, **options):
    return build_part("optimizer", {"optimizer": {"name": f"torch.optim:{name}", **options}})


def gradients(dtype, number=8):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(23, generator=generator, dtype=dtype) for _ in range(number)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_optimizer_of_torch_updates_stretches_as_torch_does_or_is_refused(
    name, options, dtype
):
    if name in REFUSED:
        more = "" if name in {"LBFGS", "SparseAdam"} else ", ring, ddp"
        said = rf"{name} cannot update stretches.*: single, solo{more}\)"
        with pytest.raises(SpecError, match=said):
            described(name, **options)
        return
    start, *rest = gradients(dtype)
    own = torch.nn.Parameter(start.clone())
    whole = getattr(torch.optim, name)([own], lr=0.05, **options)
    vector = start.clone()
    update = Update(described(name, lr=0.05, **options), vector)
    for number, each in enumerate(rest, 1):
        own.grad = each.clone()
        whole.step()
        for at, length in ((9, 14), (0, 9)):
            update.apply(each[at : at + length].clone(), number, at)
    assert torch.equal(vector, own.detach())


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD"])
def test_what_is_remembered_can_be_saved_and_loaded(name):
    start, *rest = gradients(torch.float64)
    one = Update(described(name), start.clone())
    for number, each in enumerate(rest[:4], 1):
        one.apply(each.clone(), number)
    other = Update(described(name), one.parameters.clone())
    other.load(dict(one.state()))
    for number, each in enumerate(rest[4:], 5):
        one.apply(each.clone(), number)
        other.apply(each.clone(), number)
    assert torch.equal(one.parameters, other.parameters)


def test_a_spec_keeps_its_options():
    spec = RunSpec.from_table(
        {"workload": Moons(), "optimizer": {"name": "torch.optim:RMSprop", "alpha": 0.9}}
    )
    assert spec.optimizer.alpha == 0.9
    assert RunSpec.from_table(tomllib.loads(spec.toml())).optimizer == spec.optimizer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"momentum": "much"}, "optimizer.momentum"),
        ({"beta1": 0.9}, "no such field"),
        ({"lr": -1}, "optimizer.lr"),
        ({"alpha": -1.0}, "Invalid alpha"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(SpecError, match=said):
        described("RMSprop", **options)


def test_weight_decay_of_a_class_without_is_refused():
    with pytest.raises(SpecError, match=r"optimizer.weight_decay.*no weight decay"):
        described("Rprop", weight_decay=0.1)


def test_live_ones_and_classes_are_taken_too():
    own = [torch.nn.Parameter(torch.zeros(2))]
    live = RunSpec.from_table({"workload": Moons(), "optimizer": torch.optim.NAdam(own, lr=0.3)})
    assert live.optimizer == described("NAdam", lr=0.3)
    bare = RunSpec.from_table({"workload": Moons(), "optimizer": torch.optim.NAdam})
    assert bare.optimizer == described("NAdam")


def test_groups_with_different_options_are_refused():
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.2)]
    with pytest.raises(SpecError, match="parameter groups with different options"):
        RunSpec.from_table({"workload": Moons(), "optimizer": torch.optim.SGD(groups)})


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(SpecError, match="not a subclass"):
        OPTIMIZERS.build({"name": "torch.optim.lr_scheduler:StepLR"})
    with pytest.raises(SpecError, match="neither a name nor a table"):
        RunSpec.from_table({"workload": Moons(), "optimizer": 3})


def test_rows_are_refused_where_what_is_remembered_does_not_begin_as_zero():
    assert values_per_row(described("RMSprop"), 4) == 8
    with pytest.raises(SpecError, match="single rows"):
        values_per_row(described("NAdam"), 4)


@pytest.mark.parametrize("strategy", ["ring", "ps-sync"])
def test_two_workers_are_one_at_twice_the_batch(strategy, tmp_path):
    def final(name, **fields):
        spec = RunSpec.from_table(
            {
                "workload": Moons(),
                "optimizer": {
                    "name": "torch.optim:NAdam",
                    "lr": 0.01,
                    "schedule": {"name": "cosine", "end_step": 30},
                },
                "dtype": "float64",
                "cluster": "inline",
                "steps": 20,
                "record": {"tensorboard": False, "monitor": False},
                **fields,
            }
        )
        return load_file(RunDir(Path(driver.run(spec, out=tmp_path / name).run)).model)

    alone = final("one", strategy="single", batch=16)
    both = final("two", strategy=strategy, num_workers=2, batch=8)
    assert both.keys() == alone.keys()
    assert all((both[key] - alone[key]).abs().max() < 1e-9 for key in alone)


def test_ours_begin_as_zero():
    assert Sgd(momentum=0.9).initial_states == (0.0,)
