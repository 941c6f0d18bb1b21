"""Files of rates: what a device takes for each layer, and what is wrong with a bad one."""

from pathlib import Path

import pytest

from paceline.compute.rates import Rates, device_rates, own_file, shipped
from paceline.errors import SpecError

LAYERS = [("first", 100), ("norm", 0), ("second", 300)]
PUBLISHED = {
    "alexnet-cifar10": 656,
    "vgg16-cifar10": 35.4,
    "resnet50-cifar10": 51.5,
    "resnet152-cifar10": 20.0,
}


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return f"replay:{path}"


@pytest.mark.parametrize(("workload", "per_s"), PUBLISHED.items())
def test_a_k80_takes_as_long_as_was_published(workload: str, per_s: float):
    rates = device_rates("replay:k80").of(workload, "replay:k80")
    times = rates.layer_times(LAYERS, 32)
    assert sum(each.forward_s + each.backward_s for each in times) == pytest.approx(32 / per_s)
    assert rates.fields == {"num_classes": 1000, "image_size": 224}


def test_a_rate_is_spread_by_multiply_adds_backward_twice_forward():
    first, norm, second = Rates(rows_per_s=10, batch=5).layer_times(LAYERS, 5)
    assert second.forward_s == pytest.approx(3 * first.forward_s)
    assert first.backward_s == pytest.approx(2 * first.forward_s)
    assert (norm.forward_s, norm.backward_s) == (0, 0)


def test_a_model_without_multiply_adds_spreads_its_time_equally():
    first, second = Rates(rows_per_s=1, batch=1).layer_times([("a", 0), ("b", 0)], 1)
    assert first.forward_s == second.forward_s > 0


def test_measured_layers_are_taken_as_they_are_in_proportion_to_the_batch(tmp_path: Path):
    device = written(
        tmp_path / "mine.toml",
        'device = "mine"\n[workloads.synthetic]\nbatch = 4\n'
        'layers = [{layer = "0", forward_s = 1.0, backward_s = 3.0}]\n',
    )
    (only,) = device_rates(device).of("synthetic", device).layer_times([], 2)
    assert (only.layer, only.forward_s, only.backward_s) == ("0", 0.5, 1.5)
    assert own_file(device) == tmp_path / "mine.toml"


def test_what_ships_is_no_file_of_the_users():
    assert "k80" in shipped()
    assert own_file("replay:k80") is None
    assert own_file("cpu") is None


def problems_of(device: str, workload: str = "synthetic") -> str:
    with pytest.raises(SpecError) as caught:
        device_rates(device).of(workload, device)
    return str(caught.value)


def test_a_workload_that_is_not_in_the_file_is_told_with_those_that_are():
    told = problems_of("replay:k80", "lenet-mnist")
    assert "paceline calibrate" in told
    assert "resnet50-cifar10" in told


def test_a_file_that_is_not_there_or_not_toml_is_told(tmp_path: Path):
    assert "No such file" in problems_of(f"replay:{tmp_path / 'nowhere.toml'}")
    assert "not a readable rates file" in problems_of(written(tmp_path / "text.toml", "hello"))


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("batch = 4", "rows_per_s"),
        ("batch = 4\nrows_per_s = -1", "rows_per_s"),
        ("rows_per_s = 3", "batch"),
        ("batch = 4\nrows_per_s = 3\nspeed = 3", "speed"),
        ('batch = 4\nlayers = ["0"]', "layers"),
        ('batch = 4\nlayers = [{layer = "0", forward_s = -1}]', "forward_s"),
    ],
)
def test_a_bad_entry_is_told_by_field(tmp_path: Path, entry: str, word: str):
    text = f'device = "mine"\n[workloads.synthetic]\n{entry}\n'
    assert word in problems_of(written(tmp_path / "bad.toml", text))


def test_an_entry_that_is_no_table_is_told(tmp_path: Path):
    told = problems_of(written(tmp_path / "bad.toml", 'device = "x"\nworkloads = {synthetic = 3}'))
    assert "workloads.synthetic" in told
