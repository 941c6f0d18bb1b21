"""A workload of functions: a model, a Dataset and a torch optimizer, without a loop."""

import functools
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import TensorDataset

from paceline.engine import driver
from paceline.errors import SpecError, WorkloadError
from paceline.parts import code_in
from paceline.spec import RunSpec
from paceline.workloads.base import Workload
from tests.sharing import run

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def model():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

def dataset(split):
    made = torch.Generator().manual_seed(0 if split == "train" else 1)
    rows = torch.randn(96, 4, generator=made)
    return TensorDataset(rows, rows[:, :3].argmax(1))

def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01, alpha=0.9)

def groups(parameters):
    first, second = parameters
    return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.2}])

def nothing(*_):
    return None

def bad(*_):
    raise RuntimeError("no such thing")
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return lambda name: f"{path}:{name}"


def workload_of(own, **functions):
    names = {"model_fn": "model", "dataset_fn": "dataset", "optimizer_fn": "optimizer"} | functions
    return Workload.from_torch(**{key: own(each) for key, each in names.items()})


def spec_of(workload, **fields):
    quiet = {"tensorboard": False, "monitor": False}
    return RunSpec.from_table({"workload": workload, "record": quiet, "batch": 8, **fields})


def linear():
    return nn.Linear(2, 1)


def points(split):
    made = torch.Generator().manual_seed(len(split))
    rows = torch.randn(64, 2, generator=made)
    return TensorDataset(rows, rows.sum(1, keepdim=True))


def test_functions_of_a_module_are_named_and_come_back():
    workload = Workload.from_torch(linear, points, torch.optim.Adam, nn.functional.mse_loss)
    assert workload.model_fn == f"{__name__}:linear"
    assert isinstance(workload.model(), nn.Linear)
    inputs, wanted = workload.data("train", torch.float64).take(torch.tensor([3, 1]))
    assert inputs.dtype == wanted.dtype == torch.float64
    assert torch.equal(inputs[0].float(), points("train")[3][0])


def test_a_loss_of_ones_own_is_learnt_and_is_the_metric(tmp_path):
    workload = Workload.from_torch(linear, points, torch.optim.Adam, nn.functional.mse_loss)
    spec = spec_of(workload, cluster="inline", epochs=40, optimizer={"lr": 0.05})
    assert spec.optimizer.name == "torch.optim:Adam"
    result = driver.run(spec, out=tmp_path)
    assert result.test_loss < 0.1


def test_the_optimizer_is_the_functions_unless_a_run_says_otherwise(own):
    workload = workload_of(own)
    spec = spec_of(workload)
    assert (spec.optimizer.name, spec.optimizer.alpha) == ("torch.optim:RMSprop", 0.9)
    assert spec_of(workload, optimizer={"lr": 0.5}).optimizer.alpha == 0.9
    assert spec_of(workload, optimizer="adam").optimizer.name == "adam"
    again = RunSpec.from_table(tomllib.loads(spec.toml()))
    assert again == spec


def test_its_files_are_named_as_code_of_somebodys_own(own):
    table = tomllib.loads(spec_of(workload_of(own)).toml())
    assert {own("model"), own("dataset"), own("optimizer")} <= set(code_in(table))


@pytest.mark.parametrize("strategy", ["ring", "ps-sync"])
def test_two_workers_are_one_at_twice_the_batch(own, strategy, tmp_path):
    workload = workload_of(own)
    fields = {"dtype": "float64", "steps": 20}
    alone = run(spec_of(workload, **fields, strategy="single", batch=16), out=tmp_path / "a")
    spec = spec_of(workload, **fields, strategy=strategy, num_workers=2)
    both = run(spec, out=tmp_path / "b")
    one, two = (load_file(Path(each.run) / "model.safetensors") for each in (alone, both))
    assert all((one[key] - two[key]).abs().max() < 1e-9 for key in one)
    assert (Path(both.run) / "source" / "own.py").is_file()


@pytest.mark.parametrize("function", [lambda: None, functools.partial(linear), 3])
def test_what_no_process_can_import_is_refused(function):
    with pytest.raises(SpecError, match=r"workload\.model_fn.*each process can import"):
        Workload.from_torch(function, points)


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"model_fn": "missing"}, r"workload\.model_fn.*defines no missing"),
        ({"optimizer_fn": "groups"}, "parameter groups with different options"),
        ({"optimizer_fn": "bad"}, r"workload\.optimizer_fn.*no such thing"),
    ],
)
def test_bad_functions_are_answered_before_anything_starts(own, functions, said):
    with pytest.raises(SpecError, match=said):
        spec_of(workload_of(own, **functions))


def test_what_functions_give_is_looked_at(own):
    with pytest.raises(WorkloadError, match="a torch optimizer"):
        spec_of(workload_of(own, optimizer_fn="nothing"))
    with pytest.raises(WorkloadError, match="a Dataset that has a length"):
        workload_of(own, dataset_fn="nothing").data("train", torch.float32)
