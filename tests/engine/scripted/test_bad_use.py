"""What a script may do wrong, and how it is answered: with its own line, and never by waiting."""

import sys
import textwrap

import pytest
import torch

import paceline
from paceline.errors import SeatFailed, SpecError
from tests.engine.scripted.scripts import log_of, run_script, spec_of

HEAD = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

torch.manual_seed(0)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=4, shuffle=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
WRAP = "model, optimizer, loader = paceline.wrap(model, optimizer, loader)\n"
LOOP = """
for inputs, wanted in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    optimizer.step()
"""
FOR_LONG = "for _ in range(2000):\n" + textwrap.indent(LOOP, "    ")


def written(tmp_path, *parts):
    path = tmp_path / "train.py"
    path.write_text(HEAD + "".join(textwrap.dedent(part) for part in parts))
    return path


def failing(tmp_path, *parts):
    """Run a script in this process; give why it failed."""
    with pytest.raises(SeatFailed) as caught:
        run_script(tmp_path / "runs", written(tmp_path, *parts), cluster="inline")
    return caught.value.reason


def line_of(tmp_path, text):
    lines = (tmp_path / "train.py").read_text().splitlines()
    return f"train.py line {1 + next(i for i, each in enumerate(lines) if text in each)}"


BAD = {
    "twice": ([WRAP, WRAP.replace("loader = ", "again = "), LOOP], "again =", "called twice"),
    "changed": (
        [WRAP, "model.weight = nn.Parameter(torch.zeros(1, 3))\n", FOR_LONG],
        "optimizer.step()",
        "has other parameters after paceline.wrap",
    ),
    "converted": (
        [WRAP, "model.double(); model.float()\n", FOR_LONG],
        "optimizer.step()",
        "was moved or converted after paceline.wrap",
    ),
    "no backward": ([WRAP, "optimizer.step()"], "optimizer.step()", "without a backward()"),
    "no rows": (
        ["loader = DataLoader(rows, batch_size=65, drop_last=True)\n", WRAP, LOOP],
        "in loader:",
        "no batch for each of 1 workers (64 rows, batches of 65)",
    ),
    "no batches": (
        ["loader = []\n", WRAP, "step = 0\nwhile step < 10:\n" + textwrap.indent(LOOP, "    ")],
        "in loader:",
        "no batch for each of 1 workers (0 batches)",
    ),
    "a list": (
        ["paceline.wrap([model, model], optimizer, loader)"],
        "paceline.wrap(",
        "given a list with a Linear in it: give each by itself",
    ),
    "exception": ([WRAP, LOOP, "1 / 0"], "1 / 0", "ZeroDivisionError: division by zero"),
    "exit code": ([WRAP, LOOP, "sys.exit(3)"], "sys.exit(3)", "it ended itself: sys.exit(3)"),
    "scheduler": (
        [
            "s = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n",
            "paceline.wrap(model, optimizer, s)",
        ],
        "paceline.wrap(",
        "given a StepLR; it takes modules, optimizers and loaders",
    ),
    "trained before": (
        [LOOP, WRAP, LOOP],
        "paceline.wrap(",
        "paceline.wrap was called after 16 steps of SGD",
    ),
    "trained while evaluating": (
        [WRAP, "with paceline.evaluating():\n" + textwrap.indent(LOOP, "    ")],
        "optimizer.step()",
        "SGD.step() inside of paceline.evaluating()",
    ),
    "no optimizer": (["paceline.wrap(model, loader)"], "paceline.wrap(", "no optimizer"),
}


SEARCHED = "optimizer = torch.optim.LBFGS(model.parameters())\n"
UNSHARED = LOOP.replace("    nn.", "    with paceline.no_sync(): nn.")
# Under ring, with two workers.
BAD_AVERAGED = {
    "search": ([SEARCHED, WRAP, LOOP], "paceline.wrap(", "(choices: single, solo)"),
    "no sync": ([WRAP, UNSHARED], "optimizer.step()", "was inside of paceline.no_sync()"),
}
KEPT = LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)")
SCALED = """
scaler = torch.amp.GradScaler("cpu")
for inputs, wanted in loader:
    scaler.scale(nn.functional.mse_loss(model(inputs), wanted)).backward()
    scaler.step(optimizer)
"""
# Under ps-async, with one worker.
BAD_SERVED = {
    "search": ([SEARCHED, WRAP, LOOP], "paceline.wrap(", "slices of parameters: it searches"),
    "no backward": (
        [WRAP, KEPT, "optimizer.step()  # again"],
        "# again",
        "without a backward() since its last step",
    ),
    "loaded model": (
        [WRAP, "model.load_state_dict(nn.Linear(3, 1).state_dict())\n", LOOP],
        "optimizer.step()",
        "parameter 'weight' was changed by something else",
    ),
    "clamped": (
        [WRAP, LOOP + "    for each in model.parameters(): each.data.clamp_(-0.01, 0.01)"],
        "optimizer.step()",
        "was changed by something else than optimizer.step()",
    ),
    "loaded optimizer": (
        [WRAP, "optimizer.load_state_dict(optimizer.state_dict())\n", LOOP],
        "load_state_dict",
        "SGD.load_state_dict() after paceline.wrap",
    ),
    "scaled": (
        ["optimizer = torch.optim.Adam(model.parameters(), fused=True)\n", WRAP, SCALED],
        "scaler.step(",
        "call scaler.unscale_(optimizer) before",
    ),
}


def check(tmp_path, case, **settings):
    parts, text, reason = case
    with pytest.raises(SeatFailed) as caught:
        run_script(tmp_path / "runs", written(tmp_path, *parts), **settings)
    assert reason in caught.value.reason
    assert line_of(tmp_path, text) in caught.value.reason


@pytest.mark.parametrize("case", BAD_AVERAGED)
def test_bad_use_is_answered_where_gradients_are_averaged(tmp_path, case):
    check(tmp_path, BAD_AVERAGED[case], strategy="ring")


@pytest.mark.parametrize("case", BAD_SERVED)
def test_bad_use_is_answered_where_servers_step(tmp_path, case):
    check(tmp_path, BAD_SERVED[case], strategy="ps-async", num_workers=1)


def test_what_servers_write_themselves_is_no_change_of_the_scripts(tmp_path):
    """A worker that is held back has its parameters written while it waits."""
    script = written(tmp_path, WRAP, 3 * LOOP)
    result = run_script(tmp_path / "runs", script, strategy="ps-ssp", fields={"staleness": 0})
    assert [each.worker_steps for each in result.workers] == [24, 24]


@pytest.mark.parametrize("case", BAD)
def test_bad_use_is_answered_with_the_scripts_own_line(tmp_path, case):
    parts, text, reason = BAD[case]
    said = failing(tmp_path, *parts)
    assert reason in said
    assert line_of(tmp_path, text) in said


def test_two_optimizers_may_step_after_one_backward(tmp_path):
    second = "second = torch.optim.SGD([model.bias], lr=0.01)\n"
    first = "optimizer = torch.optim.SGD([model.weight], lr=0.01)\n"
    wrap = "*_, loader = paceline.wrap(model, optimizer, second, loader)\n"
    script = written(tmp_path, second, first, wrap, LOOP + "    second.step()")
    result = run_script(tmp_path / "runs", script, cluster="inline")
    assert (result.status, result.global_steps) == ("finished", 16)


def test_rows_of_batches_that_differ_are_counted_each(tmp_path):
    uneven = "loader = [(torch.randn(n, 3), torch.randn(n, 1)) for n in (4, 7, 1)]\n"
    result = run_script(tmp_path / "runs", written(tmp_path, uneven, WRAP, LOOP), cluster="inline")
    assert (result.global_steps, result.samples) == (3, 12)


def test_copies_without_a_loader_are_told_that_they_train_on_the_same_rows(tmp_path):
    script = written(tmp_path, "paceline.wrap(model, optimizer)\n", LOOP)
    result = run_script(tmp_path / "runs", script, strategy="ring")
    assert "paceline.wrap was given no loader, so every worker trains on" in log_of(result)


def test_a_script_that_never_steps_is_told_so(tmp_path):
    assert "optimizer.step() of the optimizer" in failing(tmp_path, WRAP)


def test_a_script_that_never_wraps_is_told_so(tmp_path):
    assert "without calling paceline.wrap" in failing(tmp_path, LOOP)


def test_sys_exit_in_the_middle_is_an_end_like_any(tmp_path):
    parts = [WRAP, LOOP.replace("    optimizer.step()", "    optimizer.step(); sys.exit(0)")]
    result = run_script(tmp_path / "runs", written(tmp_path, *parts), cluster="inline")
    assert (result.status, result.worker_steps) == ("finished", 1)


def test_a_script_with_a_mistake_in_it_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(SpecError, match="not a Python script: line 12"):
        spec_of(written(tmp_path, "for x in:\n"))
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        spec_of(tmp_path / "nothing.py")


@pytest.mark.parametrize(
    "field", [{"batch": 3}, {"epochs": 2}, {"optimizer": {"lr": 0.1}}, {"dtype": "float64"}]
)
def test_what_the_script_decides_is_refused(tmp_path, field):
    with pytest.raises(SpecError, match="after --"):
        spec_of(written(tmp_path, WRAP, LOOP), **field)


FROZEN = """
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
UNFREEZE = "model[0].requires_grad_(True)\n"


@pytest.mark.parametrize("strategy", ["ring", "ps-async"])
def test_what_is_unfrozen_after_wrap_is_not_silently_left_out(tmp_path, strategy):
    script = written(tmp_path, FROZEN, WRAP, LOOP, UNFREEZE, LOOP)
    with pytest.raises(SeatFailed, match=r"was frozen at paceline\.wrap requires gradients now"):
        run_script(tmp_path / "runs", script, strategy=strategy)


def test_what_is_frozen_after_wrap_may_be_unfrozen_again(tmp_path):
    parts = FROZEN.replace("False", "True"), WRAP, UNFREEZE.replace("True", "False"), LOOP
    script = written(tmp_path, *parts, UNFREEZE, LOOP, "print('weights', model[0].weight.tolist())")
    result = run_script(tmp_path / "runs", script, strategy="ring")
    first, second = (log_of(result, f"worker{rank}").splitlines()[-1] for rank in range(2))
    assert first.startswith("weights")
    assert first == second


def test_without_an_exchange_anything_may_be_unfrozen(tmp_path):
    script = written(tmp_path, FROZEN, WRAP, LOOP, UNFREEZE, LOOP)
    assert run_script(tmp_path / "runs", script, cluster="inline").global_steps == 32


UNEVEN = """
class Own(torch.utils.data.Sampler):
    num_replicas, rank = 2, int(not paceline.is_main())
    def __iter__(self): return iter(range(40 + 12 * self.rank))
    def __len__(self): return 40 + 12 * self.rank
loader = DataLoader(rows, batch_size=4, sampler=Own())
"""


@pytest.mark.parametrize("strategy", ["ring", "ps-sync"])
def test_different_numbers_of_batches_end_the_run_and_are_told(tmp_path, strategy):
    script = written(tmp_path, UNEVEN, WRAP, LOOP)
    result = run_script(tmp_path / "runs", script, strategy=strategy)
    assert [each.worker_steps for each in result.workers] == [10, 10]
    (warning,) = [each for each in result.warnings if "different numbers" in each]
    assert warning.startswith("worker1: it ended after 10 steps, since ")
    assert "own sharding" in log_of(result)


def test_where_workers_are_not_in_step_each_ends_by_itself_and_that_is_told(tmp_path):
    result = run_script(tmp_path / "runs", written(tmp_path, UNEVEN, WRAP, LOOP), strategy="ps-ssp")
    assert [each.worker_steps for each in result.workers] == [10, 13]
    assert any("from 10 steps (worker0) to 13 (worker1)" in each for each in result.warnings)


def test_whoever_does_not_use_the_loader_that_wrap_gives_back_is_told(tmp_path):
    script = written(tmp_path, WRAP.replace("model, optimizer, loader = ", ""), LOOP)
    result = run_script(tmp_path / "runs", script, strategy="ring")
    assert len([each for each in result.warnings if "no batch of the loaders" in each]) == 2


def test_an_evaluation_that_only_some_workers_come_to_ends_the_run(tmp_path):
    """Whoever trains on waits for those that rest, and they for it."""
    alone = "if paceline.is_main():\n    with paceline.evaluating():\n        pass\n"
    script = written(tmp_path, WRAP, LOOP, alone, LOOP)
    with pytest.raises(SeatFailed, match="all workers must come to") as caught:
        run_script(tmp_path / "runs", script, strategy="ring", stuck_s=1.0)
    assert caught.value.reason.endswith("and only some have: worker0")


TWO_OPTIMIZERS = """
other = nn.Linear(3, 1)
others = torch.optim.SGD(other.parameters(), lr=0.01)
paceline.wrap(model, other, optimizer, others, loader)
"""


def test_several_optimizers_are_refused_where_workers_may_be_late(tmp_path):
    script = written(tmp_path, TWO_OPTIMIZERS)
    with pytest.raises(SeatFailed, match="given 2 optimizers: with ") as caught:
        run_script(tmp_path / "runs", script, strategy="ps-sync", fields={"backup": 1})
    assert line_of(tmp_path, "paceline.wrap(") in caught.value.reason


def test_outside_of_a_run_nothing_is_done():
    objects = (object(), object())
    assert paceline.wrap(*objects) == objects
    assert paceline.wrap(objects[0]) is objects[0]
    assert paceline.is_main()
    assert (paceline.rank(), paceline.num_workers()) == (0, 1)
    with paceline.evaluating(), paceline.evaluating(shared=True), paceline.no_sync(None):
        paceline.log(loss=1.0)


def test_a_script_in_the_drivers_process_leaves_it_as_it_was(tmp_path):
    double = "torch.set_default_dtype(torch.float64)\n"
    script = written(tmp_path, WRAP, double, "model.bias.sum().backward()\noptimizer.step()\n")
    before = [*sys.path], sys.argv, torch.autograd.backward
    assert run_script(tmp_path / "runs", script, cluster="inline").global_steps == 1
    assert torch.get_default_dtype() == torch.float32
    assert ([*sys.path], sys.argv, torch.autograd.backward) == before
