"""Scripts that exchange by themselves: no line of ours, and measured as any other."""

import os
import re
import textwrap

import pytest

from paceline.clusters.emulated.describe import Emulated
from paceline.errors import PacelineError, SeatFailed, SpecError
from paceline.spec import RunSpec
from tests.engine.scripted.scripts import EXAMPLES, log_of, run_script, spec_of
from tests.engine.scripted.test_examples import numbers

LIBRARIES = {"fabric.py": "lightning_fabric", "accelerated.py": "accelerate"}
SCRIPTS = ("ddp.py", "fsdp.py", *LIBRARIES)
EMULATED = {"name": "emulated", "link": "1gbit"}
HEAD = """
import os, sys, torch, paceline
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(rows, batch_size=4)
rank = int(os.environ["RANK"])
"""
GROUP = """
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(3, 1))
"""
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
LOOP = """
for number, (inputs, wanted) in enumerate(loader):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    optimizer.step()
"""
FOR_LONG = "for _ in range(100_000):\n" + textwrap.indent(LOOP, "    ")


def written(tmp_path, *parts):
    path = tmp_path / "train.py"
    path.write_text(HEAD + "".join(textwrap.dedent(part) for part in parts))
    return path


def run_own(tmp_path, *parts, **settings):
    script = written(tmp_path, *parts)
    return run_script(tmp_path / "runs", script, strategy="own", **settings)


def failing(tmp_path, *parts, **settings):
    with pytest.raises(SeatFailed) as caught:
        run_own(tmp_path, *parts, **settings)
    return caught.value


def emulated_or_skip():
    try:
        Emulated().verify()
    except PacelineError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_learns_and_has_no_line_of_ours(tmp_path, script):
    if script in LIBRARIES:
        pytest.importorskip(LIBRARIES[script], reason=f"{LIBRARIES[script]} is not installed here")
    result = run_script(tmp_path, EXAMPLES / script, strategy="own")
    assert (result.status, result.strategy) == ("finished", "own")
    losses = numbers(log_of(result), "loss")
    assert losses[-1] < 0.95 * losses[0]
    assert (result.global_steps, result.samples, result.batch_size) == (96, 6144, 32)
    for worker in result.workers:
        phases = worker.load_s, worker.compute_s, worker.exchange_s
        assert all(each > 0 for each in phases)
        assert sum(phases) <= worker.train_s * 1.001


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_guide_says_that_an_example_took_no_line(script):
    assert "paceline" not in (EXAMPLES / script).read_text().partition('"""\n')[2]
    guide = (EXAMPLES.parents[1] / "docs" / "guide" / "scripts.md").read_text()
    (row,) = [each for each in guide.splitlines() if each.startswith(f"| `{script}`")]
    assert row.endswith("| 0 | 0 |")


@pytest.mark.parametrize("script", SCRIPTS)
def test_on_emulated_nodes_links_carry_what_ddp_sends(tmp_path, script):
    emulated_or_skip()
    if script in LIBRARIES:
        pytest.importorskip(LIBRARIES[script], reason=f"{LIBRARIES[script]} is not installed here")
    args = ["--hidden=20000", "--epochs=1"] if script == "ddp.py" else []
    record = {"monitor": True, "tensorboard": False}
    spec = {"cluster": EMULATED, "record": record, "strategy": "own"}
    result = run_script(tmp_path, EXAMPLES / script, *args, **spec)
    assert result.status == "finished"
    assert [each.name for each in result.nodes] == ["node0", "node1"]
    assert all(each.cpu_percent_mean is not None for each in result.nodes)
    assert {(each.sender, each.receiver) for each in result.traffic.pairs} == {
        ("node0", "node1"),
        ("node1", "node0"),
    }
    if script == "ddp.py":
        model = 4 * (20 * 20000 + 20000 + 20000 * 2 + 2)
        for node, pair in zip(result.traffic.nodes, result.traffic.pairs, strict=True):
            assert node.expected_sent_bytes == model * 32  # 2 (N - 1) / N of it per step
            assert node.sent_ratio == pytest.approx(1, abs=0.02)
            assert pair.num_bytes == pytest.approx(node.sent_bytes, rel=0.02)


def test_a_script_without_wrap_needs_no_strategy(tmp_path):
    script = written(tmp_path, GROUP, OPTIMIZER, LOOP)
    table = {"workload": {"name": str(script)}, "num_workers": 3}
    assert RunSpec.from_table(table).strategy.name == "own"
    wrapped = written(tmp_path, "model, loader = paceline.wrap(model, loader)\n")
    assert RunSpec.from_table({"workload": {"name": str(wrapped)}}).strategy.name == "single"


ENVIRONMENT = """
from pathlib import Path
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"]
print("found", *(os.environ[name] for name in names))
print("address", os.environ["MASTER_ADDR"])
"""


@pytest.mark.parametrize("cluster", ["local", "emulated"])
def test_workers_find_what_torchrun_would_have_set(tmp_path, cluster):
    if cluster == "emulated":
        emulated_or_skip()
    result = run_own(tmp_path, ENVIRONMENT, GROUP, OPTIMIZER, LOOP, cluster=cluster)
    found = [re.search("found (.*)", log_of(result, f"worker{n}"))[1] for n in (0, 1)]
    assert found == (
        ["0 2 0 2 0", "1 2 1 2 0"] if cluster == "local" else ["0 2 0 1 0", "1 2 0 1 1"]
    )
    addresses = [re.search("address (.*)", log_of(result, f"worker{n}"))[1] for n in (0, 1)]
    assert addresses[0] == addresses[1]
    assert (addresses[0] == "127.0.0.1") == (cluster == "local")
    assert "MASTER_ADDR" not in os.environ


def test_one_worker_needs_no_group(tmp_path):
    plain = "model = nn.Linear(3, 1)\n"
    result = run_own(tmp_path, plain, OPTIMIZER, LOOP, num_workers=1, cluster="inline")
    assert (result.worker_steps, result.samples, result.batch_size) == (16, 64, 4)
    assert "RANK" not in os.environ


TEST = """
    if number % 4 == 3:
        with torch.no_grad():
            for inputs, wanted in DataLoader(TensorDataset(*rows.tensors), batch_size=8):
                model(inputs)
"""


def test_rows_of_a_test_are_no_samples(tmp_path):
    result = run_own(tmp_path, GROUP, OPTIMIZER, LOOP, TEST)
    assert (result.worker_steps, result.samples) == (32, 128)


@pytest.mark.parametrize(
    ("length", "steps"), [({"steps": 40}, 40), ({"worker_steps": 7}, 7), ({"samples": 200}, None)]
)
def test_a_length_ends_all_workers_after_the_same_step(tmp_path, length, steps):
    result = run_own(tmp_path, GROUP, OPTIMIZER, FOR_LONG, **length)
    counts = {each.worker_steps for each in result.workers}
    assert len(counts) == 1
    assert result.status == "finished"
    if steps is None:
        assert 25 <= counts.pop() <= 28
    else:
        assert counts == {steps}


def test_seconds_end_all_workers_after_the_same_step(tmp_path):
    result = run_own(tmp_path, GROUP, OPTIMIZER, FOR_LONG, num_workers=3, seconds=0.5)
    assert result.status == "finished"
    assert len({each.worker_steps for each in result.workers}) == 1
    assert result.train_s >= 0.5


LOGGED = """
paceline.log(accuracy=0.5)
for inputs, wanted in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    paceline.log(loss=loss, size=1.0)
with paceline.evaluating():
    paceline.log(mae=0.25)
"""


def test_what_it_logs_is_kept(tmp_path):
    result = run_own(tmp_path, GROUP, OPTIMIZER, LOGGED)
    assert result.final_loss == pytest.approx(1.0, abs=1.0)
    assert result.test_metrics["mae"] == 0.25
    assert "before the first step is not kept" in log_of(result)


def test_watching_changes_nothing(tmp_path):
    """Two workers on the same rows learn what one does."""
    tail = "print('weights', *model.module.weight.flatten().tolist())\n"
    two = run_own(tmp_path, GROUP, OPTIMIZER, LOOP, tail)
    plain = "model = nn.Linear(3, 1)\n" + OPTIMIZER + LOOP + tail.replace("module.", "")
    one = run_own(tmp_path, plain, num_workers=1)
    found = [re.search("weights (.*)", log_of(each))[1].split() for each in (two, one)]
    first, second = ([float(each) for each in values] for values in found)
    assert first == pytest.approx(second, rel=1e-5)


BAD = {
    "exception": ([GROUP, OPTIMIZER, LOOP, "\nif rank: 1 / 0\n"], "1 / 0", "ZeroDivisionError"),
    "in a step": (
        [GROUP, OPTIMIZER, LOOP.rstrip() + "\n    if rank and number == 9: 1 / 0\n"],
        "1 / 0",
        "ZeroDivisionError",
    ),
    "exit code": ([GROUP, OPTIMIZER, LOOP, "sys.exit(3)"], "sys.exit(3)", "sys.exit(3)"),
    "wrap": (
        [GROUP, OPTIMIZER, "paceline.wrap(model, optimizer, loader)"],
        "paceline.wrap(",
        "give --strategy single, ring",
    ),
    "no group": (
        ["model = nn.Linear(3, 1)\n", OPTIMIZER, LOOP],
        "optimizer.step()",
        "2 copies of it would train without each other",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_use_is_answered_with_the_scripts_own_line(tmp_path, case):
    parts, text, reason = BAD[case]
    said = failing(tmp_path, *parts).reason
    lines = (tmp_path / "train.py").read_text().splitlines()
    number = 1 + next(i for i, each in enumerate(lines) if text in each)
    assert reason in said
    assert f"train.py line {number}" in said


def test_a_script_that_never_steps_is_told_so(tmp_path):
    assert "without a step" in failing(tmp_path, GROUP).reason


def test_a_script_that_ends_before_the_others_is_named(tmp_path):
    early = LOOP.rstrip() + "\n    if rank and number == 9: sys.exit(0)\n"
    error = failing(tmp_path, GROUP, OPTIMIZER, early)
    assert error.seat == "worker0"
    assert "in step 11, but their scripts have ended: worker1 after 10 steps" in error.reason


def test_a_worker_that_is_killed_is_named(tmp_path):
    kill = LOOP.rstrip() + "\n    if rank and number == 9: os.kill(os.getpid(), 9)\n"
    error = failing(tmp_path, GROUP, OPTIMIZER, kill)
    assert error.seat == "worker1"


def test_a_worker_that_is_gone_before_they_meet_is_named(tmp_path):
    """The others wait in torch's store, not in Gloo."""
    error = failing(tmp_path, "if rank: os.kill(os.getpid(), 9)\n", GROUP, OPTIMIZER, LOOP)
    assert error.seat == "worker1"


@pytest.mark.parametrize(("strategy", "number"), [("single", 1), ("ring", 2), ("ddp", 2)])
def test_other_strategies_say_what_to_do(tmp_path, strategy, number):
    parts = [part.replace('int(os.environ["RANK"])', "0") for part in (HEAD, GROUP)]
    script = tmp_path / "train.py"
    script.write_text("".join(parts))
    with pytest.raises(SeatFailed, match="--strategy own"):
        run_script(tmp_path / "runs", script, strategy=strategy, num_workers=number)


def test_a_workload_that_is_no_script_has_nothing_of_its_own():
    with pytest.raises(SpecError, match=r"logistic-mnist is no script \(choices: single, solo"):
        RunSpec.from_table({"workload": "logistic-mnist", "strategy": "own"})


def test_its_own_connections_need_a_network_that_is_trusted(tmp_path):
    script = written(tmp_path, GROUP, OPTIMIZER, LOOP)
    hosts = {"name": "ssh", "hosts": ["one", "two"]}
    with pytest.raises(SpecError, match="trusted_network"):
        spec_of(script, strategy="own", cluster=hosts)


# Once, on a busy machine, torch did not come back from taking a group apart as the script ended.
@pytest.mark.thorough
def test_it_may_leave_its_group_and_go_on(tmp_path):
    tail = "\ndist.destroy_process_group()\nprint('left', dist.is_initialized())\n"
    assert "left False" in log_of(run_own(tmp_path, GROUP, OPTIMIZER, LOOP, tail))


def test_torch_is_left_as_it_was(tmp_path):
    import torch
    import torch.distributed as dist

    before = torch.autograd.backward, dist.all_reduce, dist.Work.wait
    plain = "model = nn.Linear(3, 1)\n"
    run_own(tmp_path, plain, OPTIMIZER, LOOP, num_workers=1, cluster="inline")
    assert (torch.autograd.backward, dist.all_reduce, dist.Work.wait) == before
