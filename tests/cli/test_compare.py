"""`paceline compare`, `report` and `export`, as a user types them, and the page in a browser."""

import json
import re
import signal
from pathlib import Path

import polars
import pytest
import typer.main

from paceline.cli.app import app
from paceline.errors import SpecError, StoreError
from tests.browser import MARKS, ONE_WORD_LINES, browser
from tests.commands import QUICK, last_json, paceline, start

SIDES = ["single", "ps-async", "ring"]
FIGURES = ["loss-time", "loss-samples", "loss-steps", "accuracy-time", "speed-up", "step-parts"]
SHORT = ["--epochs", 4, "--workers", 2, "--cluster", "inline", *QUICK]

FAILING = """
from paceline.strategies.base import Strategy

class Failing(Strategy):
    def join(self, place):
        raise RuntimeError("on purpose")
"""


def called(*arguments: object) -> None:
    """Carry a command out within this process: a user's mistakes come back as errors."""
    typer.main.get_command(app).main([str(each) for each in arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A folder in which a comparison was made, and what it printed."""
    cwd = tmp_path_factory.mktemp("compared")
    strategies = ["--strategies", ",".join(SIDES), "--repeat", 2]
    done = paceline(
        "compare", "logistic-mnist", *strategies, *SHORT, "--to", "page", "--json", cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return cwd, done


class TestCompare:
    def test_it_prints_a_table_a_conclusion_and_the_reports_path(self, compared):
        cwd, done = compared
        lines = done.stdout.splitlines()
        assert [line.split()[0] for line in lines[1:4]] == SIDES
        assert " % accuracy" in lines[5]
        assert "report: page/report.html" in lines
        assert (cwd / "page" / "report.html").is_file()

    def test_sides_take_turns_and_every_other_round_goes_backwards(self, compared):
        _, done = compared
        strategies = [run["strategy"] for run in last_json(done)["runs"]]
        assert strategies == [*SIDES, *reversed(SIDES)]

    def test_all_see_the_same_rows_and_one_worker_is_one(self, compared):
        _, done = compared
        runs = last_json(done)["runs"]
        assert {run["samples"] for run in runs} == {24_000}
        assert {(run["strategy"], run["num_workers"]) for run in runs} == {
            ("single", 1),
            ("ps-async", 2),
            ("ring", 2),
        }

    def test_progress_is_told_run_by_run(self, compared):
        _, done = compared
        assert "run 6 of 6 · logistic-mnist · single" in done.stderr
        assert "s left" in done.stderr

    def test_every_figure_and_table_is_there_as_files(self, compared):
        cwd, _ = compared
        for name in FIGURES:
            for suffix in ("png", "svg", "pdf", "csv"):
                assert (cwd / "page" / "figures" / f"{name}.{suffix}").stat().st_size > 0
        for suffix in ("csv", "md", "tex"):
            assert (cwd / "page" / "tables" / f"comparison.{suffix}").stat().st_size > 0
        table = polars.read_csv(cwd / "page" / "tables" / "comparison.csv")
        assert table["strategy"].to_list() == SIDES

    def test_a_strategy_that_fails_is_said_and_the_others_go_on(self, tmp_path):
        (tmp_path / "mine.py").write_text(FAILING)
        strategies = ["--strategies", "single,mine.py:Failing", "--repeat", 2]
        done = paceline("compare", "logistic-mnist", *strategies, *SHORT, "--json", cwd=tmp_path)
        assert done.returncode == 1
        assert "mine.py:Failing failed" in done.stdout
        # What failed once is not tried again.
        statuses = [run["status"] for run in last_json(done)["runs"]]
        assert sorted(statuses) == ["failed", "finished", "finished"]

    def test_ctrl_c_keeps_what_is_finished_and_reports_it(self, tmp_path):
        options = ["--strategies", "single,solo", "--seconds", 0.5, "--repeat", 50, *QUICK]
        process = start("compare", "logistic-mnist", *options, "--to", "page", cwd=tmp_path)
        for line in process.stderr:
            if line.startswith("run 2 of 100"):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "report: page/report.html" in out
        page = (tmp_path / "page" / "report.html").read_text()
        assert "Stopped by the user: 99 of 100 runs were not made." in page

    def test_a_report_that_cannot_be_written_is_told_before_anything_starts(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="cannot write a report to file"):
            called("compare", "logistic-mnist", *QUICK, "--to", "file")
        assert not (tmp_path / "runs").exists()

    def test_strategies_can_be_varied_like_any_field(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        vary = ["--vary", "strategy=solo,single", "--vary", "batch=50,75"]
        called(
            "compare",
            "logistic-mnist",
            *vary,
            "--samples",
            300,
            "--repeat",
            1,
            "--cluster",
            "inline",
            *QUICK,
            "--json",
        )
        runs = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
        assert [(run["strategy"], run["batch_size"]) for run in runs] == [
            ("solo", 50),
            ("single", 50),
            ("solo", 75),
            ("single", 75),
        ]

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--strategies", "rin"], "strategy = 'rin'"),
            (["--strategies", ","], "--strategies"),
            (["--vary", "batch"], "not of the form FIELD=A,B,..."),
            (["--vary", "batch=1,x"], "batch = 'x'"),
            (["--vary", "batch=1,2", "--steps", 5], "use --epochs or --samples"),
            (["--vary", "record.monitor=true,false"], "this field changes only recording"),
            (["--vary", "strategy=ring,rin"], "strategy = 'rin'"),
            (["--repeat", 2, "--budget", 60], "--budget = 60.0: not with --repeat 2"),
            (
                ["--vary", "strategy=ring,single", "--strategies", "solo"],
                "--vary = 'strategy=ring,single': --strategies solo is given too",
            ),
            (["--set", "strategy.nothing=1"], "strategy.nothing = 1: none of single, ps-async"),
        ],
    )
    def test_what_is_wrong_is_told_before_anything_starts(
        self, options, told, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SpecError, match=re.escape(told)):
            called("compare", "logistic-mnist", *QUICK, *options)
        assert not list(tmp_path.iterdir())

    def test_a_replayed_device_has_no_best_learning_rate(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        told = "--tune-lr = 'replay:k80': a replayed device trains nothing"
        with pytest.raises(SpecError, match=re.escape(told)):
            called("compare", "alexnet-cifar10", "--tune-lr", "--device", "replay:k80")
        assert not list(tmp_path.iterdir())


class TestReport:
    def test_runs_that_are_kept_give_the_same_report(self, compared, capsys, monkeypatch):
        cwd, done = compared
        monkeypatch.chdir(cwd)
        called("report", "runs", "--to", "again")
        assert capsys.readouterr().out.splitlines()[0] == last_json(done)["conclusion"][0]

    def test_one_run_has_a_report_too(self, compared, capsys, monkeypatch):
        cwd, _ = compared
        monkeypatch.chdir(cwd)
        called("report", "last")
        path = capsys.readouterr().out.rpartition("report: ")[2].strip()
        assert path.startswith("reports/")
        assert Path(path).is_file()

    def test_what_is_not_there_is_told(self, compared, tmp_path, monkeypatch):
        monkeypatch.chdir(compared[0])
        with pytest.raises(StoreError, match="no such run"):
            called("report", "nothing")
        with pytest.raises(StoreError, match="a folder without runs"):
            called("report", tmp_path)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


class TestPage:
    @pytest.mark.parametrize(("width", "dark"), [(1400, False), (400, True)])
    def test_every_figure_is_drawn_and_nothing_is_fetched(self, compared, chromium, width, dark):
        cwd, _ = compared
        page = cwd / "page" / "report.html"
        chromium.open(page, width, dark=dark)
        assert chromium.complaints == []
        assert chromium.requests == [page.resolve().as_uri()]
        drawn = chromium.evaluate(MARKS)
        assert {name for name, _, _ in drawn} >= set(FIGURES)
        assert [name for name, marks, _ in drawn if marks == 0] == []
        assert [name for name, _, fits in drawn if not fits] == []
        # The page itself is never wider than the screen; wide tables scroll within it.
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width

    def test_no_column_is_one_word_wide_on_a_telephone(self, compared, chromium):
        cwd, _ = compared
        chromium.open(cwd / "page" / "report.html", 400)
        assert chromium.evaluate(ONE_WORD_LINES) == []


class TestExport:
    @pytest.fixture(autouse=True)
    def there(self, compared, monkeypatch):
        monkeypatch.chdir(compared[0])

    def test_tables_hold_the_rows_of_all_runs(self):
        called("export", "runs", "--to", "csv")
        results = polars.read_csv("csv/results.csv")
        assert results["strategy"].to_list() == [*SIDES, *reversed(SIDES)]
        steps = polars.read_csv("csv/steps.csv")
        assert steps["run"].n_unique() == 6
        assert {"node", "cpu_percent"} <= set(polars.read_csv("csv/nodes.csv").columns)

    def test_parquet_is_the_same(self, capsys):
        called("export", "last", "--format", "parquet", "--to", "pq")
        assert capsys.readouterr().out.split()[0] == "pq/results.parquet"
        assert polars.read_parquet("pq/results.parquet")["status"].to_list() == ["finished"]

    def test_tensorboard_gets_a_folder_a_run(self, capsys):
        called("export", "runs", "--format", "tensorboard", "--to", "tb")
        assert len(capsys.readouterr().out.split()) == 6
        assert len(list(Path("tb").glob("*/evaluation/events.*"))) == 6

    @pytest.mark.parametrize("format_", ["csv", "parquet", "tensorboard"])
    def test_a_run_is_never_written_into(self, format_):
        (run, *_) = sorted(Path("runs").iterdir())
        before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
        to = run.parent if format_ == "tensorboard" else run
        with pytest.raises(StoreError, match="is a run; choose another --to"):
            called("export", run, "--format", format_, "--to", to)
        assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
