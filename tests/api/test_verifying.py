"""`--verify`: candidates are run emulated here, and what cannot be is told beside the plan."""

import pytest

import paceline
from paceline.api import verifying
from paceline.clusters.emulated.network import try_out
from paceline.errors import Interrupted, Problem, SeatFailed, SpecError
from paceline.system.attempts import attempt

MODEL = {"name": "synthetic", "bytes": 400_000, "layers": 2}


@pytest.fixture(autouse=True, scope="module")
def _needs_namespaces():
    refused = attempt(lambda: try_out(0.0))
    if refused:
        pytest.skip(f"cannot create network namespaces here: {refused}")


def plan(**fields):
    table = {"machines": [2], "rows_per_s": 400.0, "batch": 8, "link": "100mbit", "costs": {}}
    return paceline.plan(workload=MODEL, verify=True, **{**table, **fields})


def test_a_small_plan_is_run_here_and_comes_near(tmp_path):
    planned = plan(strategies=["ring"], to=tmp_path)
    (verified,) = planned.verified
    assert verified.label == "ring"
    assert verified.measured_per_s
    # How near is a benchmark's to say: other tests may fill the machine.
    assert 0.3 * verified.measured_per_s < verified.predicted_per_s < 3 * verified.measured_per_s
    assert "rows/s measured" in verified.sentence
    assert "Emulated here" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SeatFailed("worker1", "was silent for 30 s"), "worker1 failed: was silent for 30 s"),
        (SpecError([Problem("cluster.latency_s", 0.005, "no sch_netem")]), "no sch_netem"),
        (OSError("no room left"), "no room left"),
    ],
)
def test_what_fails_is_told_beside_the_plan(monkeypatch, tmp_path, error, told):
    def fail(*_args, **_more):
        raise error

    monkeypatch.setattr(verifying, "run", fail)
    planned = plan(strategies=["ring", "ddp"], to=tmp_path)
    assert [each.label for each in planned.verified] == ["ring", "ddp"]
    for each in planned.verified:
        assert each.measured_per_s is None
        assert "not verified" in each.sentence
        assert told in each.sentence
    assert planned.recommended.samples_per_s > 0
    assert planned.table()["verified"][0]["failed"]
    assert told in (tmp_path / "report.html").read_text()


def test_whoever_stops_a_verification_has_the_plan(monkeypatch):
    def stop(*_args, **_more):
        raise Interrupted("stopped")

    monkeypatch.setattr(verifying, "run", stop)
    (only,) = plan(strategies=["ring", "ddp"]).verified
    assert "stopped by the user" in only.sentence


def test_a_run_that_hangs_is_given_up(monkeypatch):
    specs = []

    def note(spec, **_more):
        specs.append(spec)
        raise SeatFailed("worker0", "noted")

    monkeypatch.setattr(verifying, "run", note)
    (verified,) = plan(strategies=["ring"]).verified
    (spec,) = specs
    step_s = 2 * 8 / verified.predicted_per_s
    assert spec.when_stuck == "stop"
    assert spec.stuck_s * spec.dilation == pytest.approx(30 + 10 * step_s * spec.dilation, rel=0.1)
