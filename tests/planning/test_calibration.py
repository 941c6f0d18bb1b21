"""What is measured of this machine, layer by layer, is a file that replay takes."""

import pytest
import tomli_w

from paceline.compute.rates import device_rates
from paceline.errors import SpecError
from paceline.planning import calibration
from paceline.planning.calibration import _running_share, calibrate, file_table
from paceline.spec import RunSpec


def spec_of(**table) -> RunSpec:
    return RunSpec.from_table({"threads": 1, **table})


SYNTHETIC = {"name": "synthetic", "bytes": 120_000, "layers": 3}


def test_every_layer_is_measured_and_progress_is_told():
    told = []
    rates = calibrate(spec_of(workload=SYNTHETIC), 3, lambda *each: told.append(each))
    assert [each.layer for each in rates.layers] == ["layers.0", "layers.1", "layers.2"]
    assert all(each.forward_s > 0 and each.backward_s > 0 for each in rates.layers)
    assert rates.update_s > 0
    assert (rates.batch, rates.num_rows) == (8, 10_000)
    assert told[0] == (0, 6)
    assert told[-1] == (5, 6)


def test_the_file_is_read_as_it_was_measured(tmp_path):
    spec = spec_of(workload=SYNTHETIC, batch=4)
    rates = calibrate(spec, 1, lambda *_: None)
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(file_table("mine", "synthetic", rates, "a test")))
    device = f"replay:{path}"
    assert device_rates(device).of("synthetic", device) == rates
    assert rates.fields == {"bytes": 120_000, "layers": 3}


def test_a_network_needs_no_data_to_be_measured(tmp_path):
    workload = {"name": "resnet20-cifar10", "data_dir": str(tmp_path)}
    rates = calibrate(spec_of(workload=workload, batch=2), 1, lambda *_: None)
    assert rates.num_rows is None
    assert rates.fields == {}


def test_a_table_of_rows_cannot_be_measured():
    workload = {"name": "synthetic", "features": 100}
    with pytest.raises(SpecError, match="sparse models cannot be calibrated"):
        calibrate(spec_of(workload=workload), 1, lambda *_: None)


@pytest.mark.parametrize(
    ("wall_s", "ran_s", "waited_s", "share"),
    [
        (10.0, 10.0, 0.0, 1.0),
        (10.0, 5.0, 5.0, 0.5),  # one thread, and half of a core
        (10.0, 10.0, 10.0, 0.5),  # two threads that had one core
        (10.0, 18.0, 2.0, 0.9),  # two threads, and nearly two cores
        (10.0, 4.0, 0.0, 0.4),  # a kernel that does not count who waits
    ],
)
def test_how_much_threads_ran_is_told_by_their_waiting_too(wall_s, ran_s, waited_s, share):
    assert _running_share(wall_s, ran_s, waited_s) == pytest.approx(share)


def test_a_machine_that_was_busy_with_other_work_is_told(monkeypatch):
    waited = iter([{"1": 0.0}, {"1": 1000.0}])
    monkeypatch.setattr(calibration, "in_line_s", lambda: next(waited))
    rates = calibrate(spec_of(workload=SYNTHETIC), 1, lambda *_: None)
    assert "busy with other work" in rates.note
    assert "ran for 0 %" in rates.note
    assert file_table("mine", "synthetic", rates, "a test")["workloads"]["synthetic"]["note"]
