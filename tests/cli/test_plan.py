"""`paceline plan`, as a user types it."""

from pathlib import Path

from tests.commands import last_json, paceline
from tests.made_runs import made

FIGURES = 'batch = 32\nrows_per_s = 100\nmodel_bytes = "100MB"\n'


def test_a_workload_is_calibrated_and_planned(tmp_path: Path):
    done = paceline(
        *("plan", "synthetic", "--machines", "1,2,4", "--link", "1gbit", "--json"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    table = last_json(done)
    assert {row["machines"] for row in table["rows"]} == {1, 2, 4}
    assert table["compute_s"] > 0
    assert table["costs"]["message_s"] > 0
    assert table["sentences"]


def test_the_table_the_recommendation_and_its_error_are_printed(tmp_path: Path):
    (tmp_path / "published.toml").write_text(FIGURES)
    done = paceline(
        *("plan", "published.toml", "--machines", "1,8", "--price", "0.9", "--samples", "1000000"),
        *("--to", "page"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for part in (
        "rows/s",
        "speed-up",
        "Use single on 1 machine",
        "8 machines would bring",
        "hours",
        "cost",
    ):
        assert part in done.stdout
    assert "hecked" in done.stdout
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Where each strategy wins" in page
    for name in ("rate", "efficiency", "map", "cost"):
        assert (tmp_path / "page" / "figures" / f"{name}.svg").is_file()


def test_from_is_given_twice_for_steps_of_one_run_and_links_of_another(tmp_path: Path):
    runs = tmp_path / "runs"
    small = made(runs, "single", num_workers=1, model_bytes=31_400)
    large = made(runs, "ps-sync", num_workers=2, model_bytes=31_400)
    done = paceline(
        *("plan", "--from", large.name, "--from", small.name, "--machines", "2"),
        *("--link", "1gbit", "--set", "costs.message_s=0"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"measured in {small.name} and {large.name}" in done.stdout


def test_nothing_is_started_where_something_is_wrong(tmp_path: Path):
    done = paceline(
        *("plan", "lenet-mnist", "--machines", "1,0", "--link", "0", "--device", "abacus"),
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "nothing was started" in done.stderr
    for field in ("machines", "link", "device"):
        assert f"{field} = " in done.stderr


def test_a_stored_run_says_how_long_its_steps_take(tmp_path: Path):
    ran = paceline(
        *("run", "logistic-mnist", "--epochs", 2, "--set", "workload.subset=tenth"),
        *("--eval-every", 20, "--json"),
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    without = paceline("plan", "--from", "last", "--machines", "4", cwd=tmp_path)
    assert without.returncode == 2
    assert "link" in without.stderr
    done = paceline(
        *("plan", "--from", "last", "--machines", "1,4", "--link", "1gbit", "--json"),
        *("--target", "accuracy>=0.3", "--price", 1),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    result, table = last_json(ran), last_json(done)
    measured = result["workers"][0]["compute_s"] / result["workers"][0]["worker_steps"]
    # The plan takes the median step: on a busy machine the mean lies far above it.
    assert 0 < table["compute_s"] < 1.5 * measured
    assert all(row["cost"] > 0 for row in table["rows"])
    never = paceline(
        *("plan", "--from", "last", "--link", "1gbit", "--target", "accuracy>=0.9999"),
        cwd=tmp_path,
    )
    assert never.returncode == 2
    assert "never reached" in never.stderr


SCRIPT = """
import argparse
import torch
from torch import nn
import paceline

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
width = parser.parse_args().width
model = nn.Linear(width, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer = paceline.wrap(model, optimizer)
for _ in range(1000):
    optimizer.zero_grad()
    model(torch.ones(2, width)).sum().backward()
    optimizer.step()
"""


def test_a_script_is_planned_with_its_own_arguments_and_optimizer(tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = paceline(
        *("plan", "train.py", "--machines", "2", "--link", "1gbit", "--json"),
        *("--", "--width", "50000"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    table = last_json(done)
    assert table["model_bytes"] == 4 * 50001
    assert any("after its backward pass" in each for each in table["notes"])
    (ring,) = [row for row in table["rows"] if row["label"] == "ring"]
    assert ring["memory_bytes"] == 4 * table["model_bytes"]  # Adam keeps two of each


def test_a_price_alone_prints_the_cost_of_a_million_rows(tmp_path: Path):
    (tmp_path / "published.toml").write_text(FIGURES)
    done = paceline("plan", "published.toml", "--machines", "1", "--price", "3.6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "to 1,000,000 rows" in done.stdout
    assert "10.00" in done.stdout
