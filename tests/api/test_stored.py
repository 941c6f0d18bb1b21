"""Runs that are kept, as Python reads them: rows, curves, figures, explanations, reports."""

import json

import polars
import pytest

import paceline
from paceline.cli.app import app
from tests.made_runs import made


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with two runs."""
    folder = tmp_path_factory.mktemp("kept")
    made(folder, "ring", num_nodes=2)
    made(folder, "ps-sync")
    return folder


def test_a_run_is_found_by_name_by_path_by_result_and_as_the_last(kept):
    ring, sync = paceline.runs(kept)
    assert (ring.result.strategy, sync.result.strategy) == ("ring", "ps-sync")
    for wanted in ("last", sync.path, sync.name[-6:], sync.result):
        assert paceline.load(wanted, out=kept).name == sync.name
    with pytest.raises(paceline.StoreError, match="no such run"):
        paceline.load("nothing-like-it", out=kept)


def test_rows_and_curves_are_frames(kept):
    run = paceline.load("ring", out=kept)
    assert run.spec["strategy"]["name"] == "ring"
    assert {"time_s", "seat"} <= set(run.rows().columns)
    assert {"node", "cpu_percent"} <= set(run.nodes().columns)
    assert run.evaluations().height
    assert run.losses().is_empty()
    curves = run.curves()
    assert {"loss", "rate", "usage", "exchanged", "accuracy", "test_loss"} == set(curves)
    assert all(isinstance(each, polars.DataFrame) for each in curves.values())
    assert curves["accuracy"].columns == ["time_s", "progress", "accuracy"]
    assert curves["loss"]["smoothed"].is_finite().all()


def test_figures_and_tables_are_those_of_a_report(kept):
    run = paceline.load("ring", out=kept)
    assert "comparison" in run.tables()
    figure = next(iter(run.figures().values()))
    picture = figure._repr_svg_()
    assert picture.startswith("<svg")
    assert figure.title in picture


def test_a_run_says_in_brief_what_it_is(kept):
    run = paceline.load("ring", out=kept)
    assert repr(run).startswith(f"<Run {run.name}: finished, 3 x batch 75, ")
    assert "accuracy 90.00 %" in repr(run) or "accuracy 0.9" in repr(run)
    assert run.name in run._repr_html_()


def test_an_explanation_is_what_the_command_line_prints(kept, capsys):
    run = paceline.load("ring", out=kept)
    explained = paceline.explain(run)
    app(["explain", "ring", "--out", str(kept), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(explained.table()))
    app(["explain", "ring", "--out", str(kept)], standalone_mode=False)
    printed = capsys.readouterr().out
    assert all(line in printed for line in str(explained).splitlines())
    assert repr(explained) == f"<Explanation: {explained.sentence}>"
    assert explained.table() == paceline.explain("ring", out=kept).table()


def test_a_report_is_written_and_says_what_it_says(kept, tmp_path):
    written = paceline.report(paceline.runs(kept), to=tmp_path / "page", title="Both")
    assert written.path == tmp_path / "page" / "report.html"
    assert (written.page.title, written.left_out) == ("Both", ())
    assert "Both" in written.path.read_text()
    assert repr(written) == f"<WrittenReport {written.path}: Both>"
    assert list((tmp_path / "page" / "figures").glob("*.svg"))
    assert set(written.figures()) == {
        each.stem for each in written.path.parent.glob("figures/*.svg")
    }


def test_html_of_a_run_holds_no_markup_of_others(tmp_path):
    run = made(tmp_path, "ring", workload="<script>alert(1)</script>")
    for shown in (paceline.load("last", out=tmp_path), paceline.explain("last", out=tmp_path)):
        assert "<script" not in shown._repr_html_()
    from paceline.reporting import page_of
    from paceline.reporting.brief import brief_html

    assert "<script" not in brief_html(page_of([run]))
