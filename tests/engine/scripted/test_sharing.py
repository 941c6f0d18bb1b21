"""An evaluation that workers share: all rows, each once, and values as one worker finds them."""

import itertools
import textwrap

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)

from paceline.engine.scripted.dealing import Dealer
from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.loaders import dealt
from paceline.engine.scripted.sharing import EvaluatedPart
from paceline.errors import SeatFailed
from tests.engine.scripted.scripts import log_of, run_script
from tests.engine.scripted.test_loaders import Turns

ROWS = TensorDataset(torch.arange(38))


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(38))

    def __len__(self):
        return 38


class Pairs:
    """A sampler of batches that is the script's own."""

    def __iter__(self):
        return iter([[row, row + 1] for row in range(0, 38, 2)])

    def __len__(self):
        return 19


def shared(make, number, count=3):
    """A loader in one worker's share of an evaluation; what it draws by itself is its own."""
    torch.manual_seed(11)
    given, state = make(), torch.get_rng_state()
    torch.manual_seed(100 + number)
    turns = Turns()
    stream = SharedDraws(state)
    loader = dealt(given, Dealer(number, count, stream), turns)
    turns.is_evaluating, turns.share = True, EvaluatedPart(number, count, stream)
    return loader


def seen(batches):
    return [int(row) for batch in batches for row in (batch[0] if type(batch) is list else batch)]


KINDS = {
    "in order": lambda: DataLoader(ROWS, 4),
    "shuffled": lambda: DataLoader(ROWS, 4, shuffle=True),
    "drawn in batches": lambda: DataLoader(
        ROWS, batch_sampler=BatchSampler(SequentialSampler(ROWS), 4, drop_last=False)
    ),
    "batches of its own": lambda: DataLoader(ROWS, batch_sampler=Pairs()),
    "iterable": lambda: DataLoader(Endless(), 4),
    "no DataLoader": lambda: [torch.arange(start, start + 2) for start in range(0, 38, 2)],
    "with a process": lambda: DataLoader(ROWS, 4, num_workers=1, persistent_workers=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_together_are_all_rows_each_once(kind):
    loaders = [shared(KINDS[kind], number) for number in range(3)]
    parts = [[*loader] for loader in loaders]
    assert sorted(itertools.chain(*map(seen, parts))) == [*range(38)]
    assert [len(loader) for loader in loaders] == [len(part) for part in parts]
    assert all(parts)


def test_a_second_look_at_shuffled_rows_is_another_and_whole_too():
    loaders = [shared(KINDS["shuffled"], number) for number in range(3)]
    first, second = ([seen(loader) for loader in loaders] for _ in range(2))
    assert first != second
    assert sorted(itertools.chain(*second)) == [*range(38)]


def test_the_dataset_has_the_length_that_sums_are_divided_by():
    loaders = [shared(KINDS["in order"], number) for number in range(3)]
    for loader in loaders:
        assert len(loader.dataset) == len(seen(loader))
        loader.__dict__["_turns"].share = None
        assert loader.dataset is ROWS


def test_what_the_script_deals_out_itself_is_left_alone():
    def make():
        return DataLoader(ROWS, 4, sampler=DistributedSampler(ROWS, 2, 1, shuffle=False))

    loader = shared(make, 0, 2)
    assert seen(loader) == seen(make())
    assert len(loader) == len(make())


def test_rows_are_counted():
    loader = shared(KINDS["in order"], 1)
    share = loader.__dict__["_turns"].share
    assert not share.has_read
    assert len(seen(loader)) == share.num_rows
    assert share.has_read


SCRIPT = """
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--bare", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
rows = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
tests = TensorDataset(torch.randn(37, 3), torch.randn(37, 1))
loader = DataLoader(rows, batch_size=args.batch, shuffle=True)
bare = DataLoader(tests, batch_size=5)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader, test_loader = paceline.wrap(model, optimizer, loader, bare)
for epoch in range(2):
    for inputs, wanted in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
    with paceline.evaluating(shared=True), torch.no_grad():
        total = 0.0
        read = bare if args.bare else test_loader
        for inputs, wanted in read:
            total += nn.functional.mse_loss(model(inputs), wanted, reduction="sum").item()
        print("rows", len(read.dataset), "weights", model.weight.tolist())
        paceline.log(mse=total / len(read.dataset))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def looks(result):
    """What each worker saw in each evaluation: how many rows, and which parameters."""
    logs = [log_of(result, f"worker{rank}").splitlines() for rank in range(2)]
    found = [[each for each in log if each.startswith("rows")] for log in logs]
    return [[each.split(" weights ") for each in log] for log in found]


@pytest.mark.parametrize(
    "strategy", ["ring", "ps-sync", pytest.param("ddp", marks=pytest.mark.thorough)]
)
def test_joined_values_are_what_one_worker_finds(tmp_path, script, strategy):
    one = run_script(tmp_path / "runs", script, "--batch=8", cluster="inline")
    two = run_script(tmp_path / "runs", script, strategy=strategy)
    assert two.test_metrics == pytest.approx(one.test_metrics, rel=1e-9)
    assert [[rows for rows, _ in each] for each in looks(two)] == [["rows 18"] * 2, ["rows 19"] * 2]


def test_workers_of_an_asynchronous_server_look_at_the_same_parameters(tmp_path, script):
    first, second = looks(run_script(tmp_path / "runs", script, strategy="ps-async"))
    assert [weights for _, weights in first] == [weights for _, weights in second]
    assert len(first) == 2


def test_where_every_worker_has_a_model_of_its_own_the_first_ones_is_evaluated(tmp_path, script):
    result = run_script(tmp_path / "runs", script, strategy="solo")
    assert [rows for rows, _ in itertools.chain(*looks(result))] == ["rows 37"] * 4


def test_rows_that_cannot_be_shared_are_an_error_of_that_line(tmp_path, script):
    with pytest.raises(SeatFailed, match="no loader that was given to") as caught:
        run_script(tmp_path / "runs", script, "--bare", strategy="ring")
    lines = script.read_text().splitlines()
    number = next(n for n, each in enumerate(lines, 1) if "shared=True" in each)
    assert f"train.py line {number}" in caught.value.reason
