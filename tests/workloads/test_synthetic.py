"""The synthetic workload has exactly the size it was asked for, dense or sparse."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.training.replica import Replica
from paceline.training.rows import Rows
from paceline.workloads import WORKLOADS
from paceline.workloads.base import formula_of
from paceline.workloads.synthetic import Synthetic


def build(**fields: object) -> Synthetic:
    made: Synthetic = WORKLOADS.build({"name": "synthetic", **fields})
    return made


@given(st.integers(4, 50_000), st.integers(1, 6))
def test_the_model_has_every_byte_asked_for_and_each_has_a_gradient(num_values: int, layers: int):
    num_values = max(num_values, layers * 4)
    workload = build(bytes=num_values * 4, layers=layers, rows=20)
    torch.manual_seed(0)
    replica = Replica(workload.model())
    assert replica.parameters.nbytes == workload.bytes
    batch = workload.data("train", torch.float32).take(torch.arange(4))
    workload.loss(replica.model, batch).backward()
    assert all(each.grad.abs().max() > 1e-6 for each in replica.places)


def test_sizes_are_asked_for_as_people_write_them():
    assert build(bytes="233MB").bytes == 233_000_000


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"bytes": 1001}, "workload.bytes"),
        ({"bytes": 60, "layers": 4}, "workload.bytes"),
        ({"features": 10, "nonzeros": 11}, "workload.features"),
        ({"features": -1}, "workload.features"),
        ({"data_seed": -1}, "workload.data_seed"),
        ({"data_seed": 2**70}, "workload.data_seed"),
        ({"rows": 0}, "workload.rows"),
    ],
)
def test_a_size_that_cannot_be_is_told(fields: dict[str, int], wrong: str):
    with pytest.raises(SpecError) as caught:
        build(**fields)
    assert [problem.field for problem in caught.value.problems] == [wrong]


def test_a_size_too_small_says_how_much_is_enough():
    with pytest.raises(SpecError, match="at least 64"):
        build(bytes=60, layers=4)
    assert build(bytes=64, layers=4).width == 2


@pytest.mark.parametrize("fields", [{}, {"features": 1000}], ids=["dense", "sparse"])
def test_rows_are_the_same_in_every_process_and_differ_by_seed_and_split(fields: dict[str, int]):
    numbers = torch.arange(10)

    def first_rows(split: str, seed: int) -> list[torch.Tensor]:
        data = Synthetic(rows=100, data_seed=seed, **fields).data(split, torch.float32)
        assert len(data) == (100 if split == "train" else 10)
        assert data.origin == f"generated rows ({len(data):,})"
        return list(data.take(numbers))

    for same in zip(first_rows("train", 0), first_rows("train", 0), strict=True):
        assert torch.equal(*same)
    for other in (first_rows("test", 0), first_rows("train", 1), first_rows("test", 1)):
        assert not torch.equal(first_rows("train", 0)[0], other[0])


def test_numbers_are_of_the_dtype_asked_for():
    inputs, _ = Synthetic(rows=10).data("train", torch.float64).take(torch.arange(3))
    assert inputs.dtype == torch.float64
    sparse = Synthetic(rows=10, features=99).data("train", torch.float64)
    _, _, labels = sparse.take(torch.arange(3))
    assert labels.dtype == torch.float64


def test_a_sparse_batch_names_each_table_row_once_and_positions_lead_back_to_it():
    workload = Synthetic(rows=50, features=200, nonzeros=7)
    data = workload.data("train", torch.float32)
    numbers = torch.tensor([3, 9, 9, 40])
    batch = data.take(numbers)
    touched, positions, labels = batch
    assert torch.equal(data.touched(batch), touched)
    assert len(touched.unique()) == len(touched)
    assert torch.equal(touched[positions], data.features[numbers])
    assert positions.shape == (4, 7)
    odd = (data.features[numbers] % 2).sum(1) > 3.5
    assert torch.equal(labels, odd.float())


def test_only_sparse_gradients_are_a_formula():
    """Else a dense model's forward pass would overlap with no exchange."""
    assert formula_of(build(bytes=4000)) is None
    assert formula_of(build(features=100)) is not None


def test_dense_rows_touch_no_table():
    data = Synthetic(rows=10).data("train", torch.float32)
    assert data.touched(data.take(torch.arange(3))) is None


def test_the_sparse_models_table_is_not_among_its_parameters():
    replica = Replica(Synthetic(features=10**9).model())  # a table of 4 GB, were it there
    assert replica.parameters.numel() == 1
    assert isinstance(replica.table, Rows)
    assert (replica.table.num_rows, replica.table.width) == (10**9, 1)


def test_sparse_metrics_count_the_rows_that_are_right():
    workload = Synthetic(rows=50, features=20, nonzeros=5)
    model = workload.model()
    data = workload.data("train", torch.float32)
    batch = data.take(torch.arange(50))
    # The planted rule itself: odd features push up, even ones down.
    model.weights.window = (batch[0] % 2 * 2 - 1).float().unsqueeze(1)
    metrics = workload.metrics(model, batch)
    assert metrics["accuracy"].item() == 1.0
    assert metrics["loss"].item() == pytest.approx(workload.loss(model, batch).item())
