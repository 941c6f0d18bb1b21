"""Two optimizers: a step is a step of the first, however many pushes servers count."""

import textwrap

import pytest

from tests.engine.scripted.scripts import assert_same_model, run_script

SCRIPT = """
import argparse, torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as judged
from torch.utils.data import DataLoader, TensorDataset
import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--epochs", type=int, default=1000)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
rows = TensorDataset(torch.randn(64, 2), torch.randn(64, 3))
loader = DataLoader(rows, batch_size=args.batch, shuffle=True)
critic, maker = nn.Linear(2, 1), nn.Linear(3, 2)
critic_steps = torch.optim.Adam(critic.parameters(), lr=0.01)
maker_steps = torch.optim.SGD(maker.parameters(), lr=0.1)
critic, maker, critic_steps, maker_steps, loader = paceline.wrap(
    critic, maker, critic_steps, maker_steps, loader
)
for epoch in range(args.epochs):
    for real, noise in loader:
        yes, no = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        made = maker(noise)
        critic_steps.zero_grad()
        judged(critic(real), yes).backward()
        judged(critic(made.detach()), no).backward()
        critic_steps.step()
        maker_steps.zero_grad()
        judged(critic(made), yes).backward()
        maker_steps.step()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "gan.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


@pytest.fixture(scope="module")
def alone(script):
    return run_script(script.parent / "runs", script, "--batch=8", steps=9, cluster="inline")


@pytest.mark.parametrize("strategy", ["ring", "ps-sync", "ddp"])
def test_two_workers_equal_one_at_twice_the_batch_and_count_the_same(
    script, alone, tmp_path, strategy
):
    result = run_script(tmp_path, script, strategy=strategy, steps=9)
    assert (alone.global_steps, alone.worker_steps, alone.samples) == (9, 9, 72)
    assert (result.global_steps, result.worker_steps, result.samples) == (9, 18, 72)
    assert_same_model(alone, result)


def test_steps_of_workers_that_are_not_in_step_are_those_of_the_first_optimizer(script, tmp_path):
    result = run_script(tmp_path, script, "--epochs=1", strategy="ps-async")
    assert (result.global_steps, result.worker_steps) == (16, 16)


def test_a_length_in_global_steps_holds_for_them_too(script, tmp_path):
    result = run_script(tmp_path, script, strategy="ps-async", steps=20)
    assert result.global_steps == result.worker_steps
    assert 20 <= result.global_steps <= 22  # the other worker may be within a step


def test_time_ends_all_workers_of_a_synchronous_server_after_the_same_step(script, tmp_path):
    result = run_script(tmp_path, script, strategy="ps-sync", seconds=0.3)
    assert [each.worker_steps for each in result.workers] == [result.global_steps] * 2
    assert not result.warnings
