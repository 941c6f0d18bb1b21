"""What scripts are in the habit of doing around their steps, and find as it was."""

import textwrap

import pytest
import torch

from tests.engine.scripted.scripts import assert_same_model, log_of, run_script

HEAD = """
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--to")
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=args.batch, shuffle=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = paceline.wrap(model, optimizer, loader)
"""
SCALED = """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
for _ in range(args.epochs):
    for inputs, wanted in loader:
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(inputs), wanted)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
print("scale", scaler.get_scale())
"""
ACCUMULATED = """
for _ in range(args.epochs):
    for number, (inputs, wanted) in enumerate(loader, start=1):
        (nn.functional.mse_loss(model(inputs), wanted) / 2).backward()
        if number % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
SAVED = """
for inputs, wanted in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    optimizer.step()
if paceline.is_main():
    torch.save(model.state_dict(), args.to)
"""


@pytest.fixture
def script(tmp_path):
    def written(loop):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(HEAD + loop))
        return path

    return written


@pytest.mark.parametrize("strategy", ["ring", "ddp"])
def test_a_scaler_and_clipping_see_the_average(tmp_path, script, strategy):
    path = script(SCALED)
    one = run_script(tmp_path / "runs", path, "--batch=8", cluster="inline")
    two = run_script(tmp_path / "runs", path, strategy=strategy)
    assert one.global_steps == two.global_steps == 8
    assert_same_model(one, two)
    scales = [log_of(two, f"worker{rank}").splitlines()[-1] for rank in range(2)]
    assert scales == ["scale 4096.0"] * 2


def test_a_scaler_unscales_before_servers_are_given_anything(tmp_path, script):
    path = script(SCALED.replace("nn.utils.clip_grad_norm_(model.parameters(), 0.5)", "pass"))
    one = run_script(tmp_path / "runs", path, "--batch=8", cluster="inline")
    assert_same_model(one, run_script(tmp_path / "runs", path, strategy="ps-sync"))


@pytest.mark.parametrize("strategy", ["ring", "ps-sync"])
def test_a_length_holds_where_gradients_of_several_batches_add_up(tmp_path, script, strategy):
    path = script(ACCUMULATED)
    long = "--epochs=50"
    one = run_script(tmp_path / "runs", path, "--batch=8", long, cluster="inline", steps=7)
    two = run_script(tmp_path / "runs", path, long, strategy=strategy, steps=7)
    assert (one.global_steps, one.samples) == (two.global_steps, two.samples) == (7, 112)
    assert_same_model(one, two)


@pytest.mark.parametrize("strategy", ["ring", "ps-async"])
def test_the_main_worker_saves_a_checkpoint_that_any_program_loads(tmp_path, script, strategy):
    to = tmp_path / "checkpoint.pt"
    result = run_script(tmp_path / "runs", script(SAVED), f"--to={to}", strategy=strategy)
    assert result.status == "finished"
    model = torch.nn.Linear(3, 1).double()
    model.load_state_dict(torch.load(to))
    assert model.weight.dtype == torch.float64


WITH_MEMORY = """
state = optimizer.state_dict()
torch.manual_seed(5)
momentum = {0: torch.randn(1, 3), 1: torch.randn(1)}
state["state"] = {key: {"momentum_buffer": value} for key, value in momentum.items()}
optimizer.load_state_dict(state)
model, optimizer, loader = paceline.wrap("""


def test_servers_go_on_with_the_momentum_that_was_loaded_before_wrap(tmp_path, script):
    path = script(SAVED.replace("if paceline.is_main():", "if False:"))
    wrapped = "\nmodel, optimizer, loader = paceline.wrap("
    text = path.read_text()
    assert text.count(wrapped) == 1
    path.write_text(text.replace(wrapped, WITH_MEMORY))
    one = run_script(tmp_path / "runs", path, "--batch=8", cluster="inline")
    assert_same_model(one, run_script(tmp_path / "runs", path, strategy="ps-sync"))
