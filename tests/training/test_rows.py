"""A table's rows, summed and back: as torch's own embedding_bag has it."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from paceline.comm.roster import Seat
from paceline.measure.profile import Profile
from paceline.sinks.folder import FolderSink
from paceline.store.runs import RunDir
from paceline.training.replica import Replica
from paceline.training.rows import Rows
from paceline.workloads.nets.logistic import SparseLogistic

POSITIONS = torch.tensor([[0, 2, 2], [1, 0, 4], [3, 3, 3]])


def window(width: int) -> Tensor:
    values = torch.randn(5, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return values.requires_grad_()


def rows_with(values: Tensor) -> Rows:
    rows = Rows(100, values.shape[1])
    rows.window = values
    return rows


def assert_alike(ours: Tensor, theirs: Tensor, ours_of: Tensor, theirs_of: Tensor) -> None:
    torch.testing.assert_close(ours, theirs)
    weights = torch.arange(1.0, ours.numel() + 1, dtype=torch.float64).view(ours.shape)
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    torch.testing.assert_close(ours_of.grad, theirs_of.grad)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_samples_of_one_length(width: int, weighted: bool):
    weights = torch.linspace(-1, 2, 9, dtype=torch.float64).view(3, 3) if weighted else None
    ours, theirs = window(width), window(width)
    expected = functional.embedding_bag(POSITIONS, theirs, mode="sum", per_sample_weights=weights)
    assert_alike(rows_with(ours)(POSITIONS, weights), expected, ours, theirs)


@pytest.mark.parametrize("width", [1, 3])
def test_samples_of_different_lengths(width: int):
    positions = torch.tensor([4, 0, 0, 1, 3])
    weights = torch.linspace(-1, 2, 5, dtype=torch.float64)
    bags = torch.tensor([0, 2, 2, 5])  # the second has none
    ours, theirs = window(width), window(width)
    expected = functional.embedding_bag(
        positions, theirs, bags[:-1], mode="sum", per_sample_weights=weights
    )
    assert_alike(rows_with(ours)(positions, weights, bags), expected, ours, theirs)


def test_no_samples_at_all():
    rows = rows_with(window(1))
    summed = rows(torch.zeros(0, 39, dtype=torch.int64))
    assert summed.shape == (0, 1)
    summed.sum().backward()
    assert not rows.window.grad.any()


def test_a_table_held_whole_is_a_parameter_and_gives_the_same():
    touched, positions = torch.tensor([3, 7, 8]), torch.tensor([[0, 1], [2, 2]])
    kept = Replica(SparseLogistic(10), torch.float64)
    held = Replica(SparseLogistic(10), torch.float64, whole_table=True)
    assert (kept.parameters.numel(), held.parameters.numel()) == (1, 11)
    assert held.table is None
    values = torch.randn(3, 1, dtype=torch.float64)
    kept.table.window = values.clone().requires_grad_()
    held.model.weights.held.data[touched] = values
    pulled = []
    kept.bringer(pulled.append)(touched)
    held.bringer(pulled.append)(touched)
    assert len(pulled) == 1  # the held one is only told which rows are meant
    outputs = [each.model(positions) for each in (kept, held)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().sum().backward()
    gradient = held.model.weights.held.grad
    torch.testing.assert_close(gradient[touched], kept.table.window.grad)
    assert gradient.count_nonzero() == 3
    assert set(held.to_keep()) == {"bias", "rows"}
    torch.testing.assert_close(held.to_keep()["rows"][touched], values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_gradients_of_a_sparse_logistic_model_are_back_propagations(dtype, scale):
    labels = torch.tensor([1.0, 0.0, 1.0], dtype=dtype)
    values = (scale * window(1).detach()).to(dtype)
    models = [SparseLogistic(100).to(dtype) for _ in range(2)]
    for model in models:
        model.bias.data.fill_(0.25)
        model.bias.grad = torch.zeros(1, dtype=dtype)
        model.weights.window = values.clone().requires_grad_()
    ours, theirs = models
    expected = functional.binary_cross_entropy_with_logits(theirs(POSITIONS), labels)
    expected.backward()
    assert ours.gradients(POSITIONS, labels) == pytest.approx(expected.item())
    torch.testing.assert_close(ours.weights.window.grad, theirs.weights.window.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_gradients_of_a_table_that_is_a_parameter_are_left_to_back_propagation():
    model = SparseLogistic(100)
    model.weights.hold_all()
    model.bias.grad = torch.zeros(1)
    assert model.gradients(POSITIONS, torch.ones(3)) is None


def test_a_profile_shows_what_a_sparse_model_computes_with_numpy(tmp_path):
    model = SparseLogistic(100)
    model.bias.grad = torch.zeros(1)
    model.weights.window = torch.zeros(5, 1).requires_grad_()
    run = RunDir(tmp_path)
    profile = Profile(FolderSink(run, Seat("worker", 0, "node0")))
    for _ in profile.over(iter(range(10))):
        model.gradients(POSITIONS, torch.ones(3))
    profile.write(since_start_s=0.0, dilation=1.0)
    rows = run.read_operators("worker0")
    calls = {row["operator"]: row["calls_per_step"] for row in rows}
    for part in ("forward_product", "loss", "backward_product"):
        assert calls[f"numpy::{part}"] == 1
