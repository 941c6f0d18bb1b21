"""What a script's run records: steps, samples, losses, evaluations, and how long what took."""

import textwrap

import pytest

import paceline
from paceline.store.runs import RunDir
from tests.engine.scripted.scripts import EXAMPLES, log_of, run_script

SCRIPT = """
import argparse, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--sleep", type=float, default=0.0)
args = parser.parse_args()
torch.manual_seed(0)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=4, shuffle=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
wrapped = paceline.wrap(model, optimizer, loader)
assert wrapped[0] is model and wrapped[1] is optimizer and wrapped[2] is not loader
loader = wrapped[2]
for epoch in range(args.epochs):
    for inputs, wanted in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        scheduler.step()
        paceline.log(loss=loss)
    with paceline.evaluating():
        time.sleep(args.sleep)
        paceline.log(accuracy=0.2 * (1 + epoch), loss=1.0)
    print("epoch", epoch, "is over", flush=True)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_a_run_of_a_script_has_all_that_any_run_has(tmp_path, script):
    result = run_script(tmp_path / "runs", script, "--sleep=0.2", cluster="inline")
    assert (result.global_steps, result.worker_steps, result.samples) == (64, 64, 256)
    assert (result.batch_size, result.num_workers) == (4, 1)
    assert result.final_loss == pytest.approx(1.0, abs=0.9)
    assert result.test_accuracy == pytest.approx(0.8)
    assert result.evaluation_s > 0.8
    assert result.train_s < 0.8 + 64 * 0.02  # evaluations are off the clock
    curves = paceline.load(result).curves()
    assert curves["loss"].height
    (worker,) = result.workers
    assert worker.compute_s > 0
    assert worker.load_s > 0


def test_a_target_ends_the_run(tmp_path, script):
    result = run_script(
        tmp_path / "runs", script, "--epochs=50", cluster="inline", target_accuracy=0.4
    )
    assert (result.global_steps, result.test_accuracy) == (32, 0.4)
    assert result.seconds_to_target is not None


@pytest.mark.parametrize(
    ("field", "steps"), [({"steps": 10}, 10), ({"worker_steps": 7}, 7), ({"samples": 20}, 5)]
)
def test_a_length_ends_the_loader(tmp_path, script, field, steps):
    result = run_script(tmp_path / "runs", script, cluster="inline", **field)
    assert result.global_steps == steps


def test_two_workers_rest_together_and_only_the_first_is_shown(tmp_path, script):
    views = []
    spec_out = tmp_path / "runs"
    result = paceline.run(
        str(script),
        out=spec_out,
        strategy="ring",
        num_workers=2,
        threads=1,
        watch=views.append,
        record={"monitor": False, "tensorboard": False},
    )
    assert result.global_steps == 32
    assert result.test_accuracy == pytest.approx(0.8)
    shown = "".join(view.printed for view in views)
    assert shown.count("epoch 3 is over") == 1
    assert "epoch 3 is over" in log_of(result, "worker1")
    assert len(result.workers) == 2


def test_the_run_keeps_the_script_and_what_was_asked_of_it(tmp_path, script):
    result = run_script(tmp_path / "runs", script, "--epochs=1", cluster="inline")
    run = RunDir(tmp_path / "runs" / result.run)
    assert (run.source / "train.py").read_text() == script.read_text()
    again = paceline.RunSpec.read(run.path / "spec.toml")
    assert again.workload.args == ("--epochs=1",)
    assert again.workload.name == str(script)


def test_a_script_can_be_compared(tmp_path):
    done = paceline.compare(
        str(EXAMPLES / "mlp.py"),
        strategies=["single", "ring"],
        num_workers=2,
        repeat=1,
        threads=1,
        seconds=0.5,
        out=tmp_path,
        workload={"args": ["--epochs=1000"]},
    )
    assert not done.failures
    assert {each.strategy for each in done.runs} == {"single", "ring"}


TESTED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

torch.manual_seed(0)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader, test_loader = DataLoader(rows, batch_size=4, shuffle=True), DataLoader(rows, batch_size=8)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader, test_loader = paceline.wrap(model, optimizer, loader, test_loader)
for inputs, wanted in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    optimizer.step()
with paceline.evaluating(), torch.no_grad():
    seen = sum(len(inputs) for inputs, wanted in test_loader)
    assert len(test_loader) == 8
    paceline.log(rows=seen)
print("saw", seen, "rows")
"""


def test_a_wrapped_test_loader_gives_every_worker_all_rows(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TESTED)
    result = run_script(tmp_path / "runs", script, strategy="ps-sync", steps=8)
    assert [log_of(result, f"worker{rank}").splitlines()[-1] for rank in range(2)] == [
        "saw 64 rows",
        "saw 64 rows",
    ]
    assert result.samples == 64
    assert result.test_metrics == {"rows": 64}
