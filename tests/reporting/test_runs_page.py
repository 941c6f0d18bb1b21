"""The page about runs: what is on it, in which order, and what is left out where unknown."""

import dataclasses

import pytest

from paceline.exhibits.values import labelled
from paceline.reporting import page_of
from paceline.reporting.html import html
from tests import vega_lite
from tests.made_runs import made, stale

ALWAYS = [
    *("loss-time", "loss-samples", "loss-steps", "accuracy-time", "test-loss-time"),
    "steps-per-second",
]


def page(*runs):
    return page_of(runs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Everything there can be: nodes with links, staleness, one worker to compare with."""
    folder = tmp_path_factory.mktemp("whole")
    return page(
        made(folder, "single", num_workers=1),
        made(folder, "ps-async", seconds=6, num_nodes=3, **stale()),
        made(folder, "ring", seconds=5, num_nodes=3),
    )


def test_figures_come_in_their_order(whole):
    assert [figure.name for figure in whole.figures] == [
        *ALWAYS,
        "speed-up",
        "time",
        "cpu",
        "memory",
        "network-sent",
        "network-received",
        "packets-sent",
        "packets-received",
        "disk-written",
        "staleness",
        "step-parts",
    ]


@pytest.fixture(scope="module")
def specs(whole):
    return {figure.name: figure.spec() for figure in whole.figures}


def test_every_figure_can_be_drawn_and_says_what_it_is(whole, specs):
    for figure in whole.figures:
        spec = specs[figure.name]
        assert spec["title"]["text"] == figure.title
        assert spec["title"]["subtitle"] == ["real compute"]
        assert figure.table.frame.height > 0


def test_every_figure_is_valid_vega_lite(specs):
    for spec in specs.values():
        vega_lite.check(spec)


def test_everything_has_its_label(whole):
    page = labelled(whole)
    assert all(item.labels == ("real compute",) for item in (*page.tables, *page.figures))
    assert all(figure.table.labels == ("real compute",) for figure in page.figures)


def test_the_table_compares_as_was_asked(whole):
    table = whole.tables[0]
    assert table.headers[:4] == ["strategy", "workers", "to 90 % accuracy (s)", "training (s)"]
    rows = {row["side"]: row for row in table.frame.iter_rows(named=True)}
    assert rows["ring"]["speed_up"] == pytest.approx(2.0)
    assert rows["ps-async"]["staleness"] == 0.6
    # Without counters at links, the server has what all three workers sent and received.
    assert rows["ps-async"]["busiest_bytes"] == 9_000_000
    assert rows["ring"]["busiest_bytes"] == 3_000_000


def test_medians_have_their_spread(tmp_path):
    seconds = (4, 5, 7)
    repeated = [made(tmp_path, "ring", seconds=each) for each in seconds]
    shown = page(*repeated, made(tmp_path, "single", num_workers=1, seconds=10))
    headers = shown.tables[0].headers
    rows = {cells[0]: dict(zip(headers, cells, strict=True)) for cells in shown.tables[0].cells()}
    assert rows["ring"]["training (s)"] == "5.00 ± 1.50"
    assert rows["ring"]["speed-up (times)"] == "2.00 ± 0.54"
    assert rows["single"]["training (s)"] == "10.00"


def test_real_and_replayed_runs_are_told_apart_in_the_table(tmp_path):
    replayed = {"compute": "replayed", "device": "replay:k80", "dilation": 20.0}
    shown = page(made(tmp_path, "ring"), made(tmp_path, "ps-sync", **replayed))
    assert shown.tables[0].frame["label"].to_list() == [
        "real compute",
        "replayed compute (k80), dilated 20x",
    ]
    assert shown.tables[0].labels == (
        "in part real compute",
        "in part replayed compute (k80), dilated 20x",
    )


def test_a_side_of_which_some_runs_were_limited_says_in_part(tmp_path):
    runs = [made(tmp_path, "ring", host_limited=each) for each in (True, False)]
    table = page(*runs).tables[0]
    assert table.labels == ("real compute", "in part limited by this host")
    assert table.frame["label"].to_list() == ["real compute, in part limited by this host"]


def test_a_figure_of_sides_that_compute_alike_has_their_label_alone(tmp_path):
    replayed = {"compute": "replayed", "device": "replay:k80", "accuracy": None}
    runs = [made(tmp_path, each, **replayed) for each in ("ring", "ps-sync")]
    shown = page(made(tmp_path, "single", num_workers=1), *runs)
    (figure,) = (each for each in shown.figures if each.name == "time-1")
    assert figure.labels == figure.table.labels == ("replayed compute (k80)",)


def test_workloads_on_one_page_are_measured_by_themselves(tmp_path):
    lenet = {"workload": "lenet-mnist", "accuracy": 0.98}
    shown = page(
        made(tmp_path, "single", num_workers=1, seconds=1),
        made(tmp_path, "ring", seconds=20, **lenet),
        made(tmp_path, "ps-sync", seconds=30, **lenet),
    )
    table = shown.tables[0]
    rows = {row["side"]: row for row in table.frame.iter_rows(named=True)}
    assert rows["ring, lenet-mnist"]["speed_up"] is None
    assert table.headers[2:4] == ["to 90 % accuracy (s)", "to 98 % accuracy (s)"]
    assert [cells[2:4] for cells in table.cells()] == [
        ["1.00", "-"],
        ["-", "20.00"],
        ["-", "30.00"],
    ]
    figures = {figure.name: figure for figure in shown.figures}
    assert "speed-up" not in figures
    assert "time" not in figures
    assert figures["time-1"].title == "Time to 98 % accuracy, lenet-mnist"
    assert figures["time-1"].table.frame["value"].to_list() == [20, 30]


def test_the_machine_and_every_spec_are_on_the_page(whole):
    (section,) = (each for each in whole.sections if each.title == "Runs, specs and machine")
    names = [item.name for item in section.items]
    assert names == ["runs", "settings", "machine", "spec-0", "spec-1", "spec-2"]


def test_without_links_what_workers_exchanged_is_shown_and_said(tmp_path):
    shown = page(made(tmp_path, "ring"))
    assert not any(figure.name.startswith("network") for figure in shown.figures)
    (figure,) = (each for each in shown.figures if each.name == "exchanged")
    assert figure.table.frame["exchanged_bytes_per_s"].mean() == pytest.approx(9e6, rel=0.1)
    (section,) = (each for each in shown.sections if each.title == "What each node used")
    assert section.text == (
        (
            "There is no network over time: nodes of local have no link. "
            "What workers exchanged is shown instead, as they counted it."
        ),
    )


def test_what_was_not_measured_is_left_out_and_said(tmp_path):
    run = made(tmp_path, "single", num_workers=1)
    run.steps.drop("sent_bytes", "received_bytes").write_parquet(run.folder.steps)
    del run.__dict__["steps"]
    shown = page(run)
    assert not any(figure.name.startswith("exchanged") for figure in shown.figures)
    (section,) = (each for each in shown.sections if each.title == "What each node used")
    assert section.text == ("There is no network over time: nodes of local have no link.",)


def test_a_run_of_one_row_has_its_figures(tmp_path):
    shown = page(made(tmp_path, num_rows=1, accuracy=None))
    assert [figure.name for figure in shown.figures][:3] == ALWAYS[:3]
    assert shown.figures[0].spec()["layer"][1]["mark"]["point"]


def test_a_run_without_rows_has_its_table(tmp_path):
    shown = page(made(tmp_path, num_rows=0, accuracy=None))
    assert shown.tables[0].name == "comparison"


def test_a_run_that_failed_at_once_is_shown_as_such(tmp_path):
    unknown = ("train_s", "steps_per_s", "samples_per_s", "final_loss", "worker_steps_per_s")
    nothing = dict.fromkeys(unknown) | {"workers": (), "nodes": (), "samples": 0}
    failed = made(tmp_path, "ring", status="failed", num_rows=0, accuracy=None, **nothing)
    shown = page(failed, made(tmp_path, "single", num_workers=1))
    rows = {row["side"]: row for row in shown.tables[0].frame.iter_rows(named=True)}
    assert rows["ring"]["runs"] == "0 of 1 (failed)"


def test_colours_follow_the_strategy_everywhere(specs):
    seen = {}
    for name, spec in specs.items():
        for layer in spec.get("layer", [spec.get("spec", spec)]):
            scale = layer.get("encoding", {}).get("color", {}).get("scale")
            if scale and "ring" in scale["domain"]:
                seen[name] = scale["range"][scale["domain"].index("ring")]
    assert len(seen) > 5
    assert len(set(seen.values())) == 1


def test_a_page_escapes_what_it_is_given(tmp_path):
    run = made(tmp_path, "ring", status="failed", reason="<script>alert(1)</script>")
    shown = dataclasses.replace(page(run), title="a < b")
    text = html(shown, {"x": {"y": "</script>"}}, "let a = '</script>';")
    assert "<script>alert" not in text
    assert "<title>a &lt; b</title>" in text
    assert text.count("</script>") == 2


def test_every_metric_has_a_column_and_a_curve(tmp_path):
    metrics = {
        "mae": (1.0, 0.25),
        "Val/Acc @1": (0.1, 0.5),
        "val acc 1": (5.0, 7.0),
        "loss": (2, 1),
    }
    shown = page(*(made(tmp_path, each, metrics=metrics) for each in ("ring", "ps-sync")))
    (table,) = (each for each in shown.tables if each.name == "comparison")
    headers = [each.header for each in table.columns]
    assert headers[headers.index("mae") :][:4] == ["mae", "Val/Acc @1", "val acc 1", "test loss"]
    (row, _) = table.cells()
    told = dict(zip(headers, row, strict=True))
    assert [told[each] for each in metrics if each != "loss"] == ["0.2500", "0.5000", "7.0000"]
    assert told["test loss"] == "1.0000"
    curves = {each.name: each for each in shown.figures if each.name.endswith("-time")}
    assert list(curves)[-4:] == [
        *("test-mae-time", "test-val-acc-1-time", "test-val-acc-1-2-time", "test-loss-time")
    ]
    assert curves["test-mae-time"].title == "mae against time"
    assert curves["test-val-acc-1-2-time"].table.frame["test_val_acc_1_2"].max() == 7.0
    assert curves["test-val-acc-1-time"].spec()
