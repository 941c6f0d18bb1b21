"""Every command that prints a table, in terminals of 80, 100 and 160 columns: nothing is cut.

The runs are written as a run writes them, with long names and large figures, so that nothing is
trained here.
"""

import os
from pathlib import Path

import pytest

from paceline.outcome.results import NodeUsage, Verdict
from tests.made_runs import made, stale
from tests.terminal import Transcript, typed_in_turn, typed_python

WIDTHS = (80, 100, 160)
LONG = "resnet152-cifar10"
SENTENCE = (
    "link-bound: node0's link is 97 % full and workers wait 69 % of each step for it; "
    "ring would bring 2.4 times the samples per second"
)
WARNING = "replay:k80 was measured at a batch of 64: its times are scaled to 32, and so are others"
COMMANDS = {
    "ls": ["ls"],
    "show": ["show", "000001"],
    "explain": ["explain", "000001"],
    "workloads": ["workloads"],
    "study ls": ["study", "ls"],
    "data ls": ["data", "ls"],
    "plan": ["plan", "published.toml", "--all"],
}
# Wide figures, and every kind of sentence that a plan has.
PUBLISHED = """
batch = 512
rows_per_s = 378
model_bytes = "1022MB"
machines = [1, 16, 10000]
link = "25gbit"
uplink = "100gbit"
rack = 8
latency = "0.25ms"
workers_per_node = 4
strategies = ["ring", "ps-sync", "ps-async"]
price = 0.9
samples = 98765432
"""
# `compare` prints what a page of its runs says; the runs themselves are there already.
COMPARE = """
from pathlib import Path
from paceline.cli import compare
from paceline.reporting import page_of
from paceline.store.stored import runs_of
page = page_of(runs_of(["runs"], Path("runs"))[0])
compare._print(page, Path("reports/report.html"))
"""


LINKS = {
    "link_bits_per_s": 2e9,
    "link_sent_bits_per_s": 1.998e9,
    "link_received_bits_per_s": 1.987e9,
    "cpu_percent_mean": 104.0,
    "cpu_percent_peak": 198.0,
    "cpu_node_percent_mean": 52.0,
    "memory_mean_bytes": 12_345_600_000,
    "memory_peak_bytes": 23_456_700_000,
    "disk_read_bytes": 34_567_800_000,
    "disk_written_bytes": 45_678_900_000,
    "net_sent_bytes": 56_789_000_000,
    "net_received_bytes": 67_890_100_000,
}


@pytest.fixture(scope="module")
def cwd(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("widths")
    before = Path.cwd()
    os.chdir(cwd)
    try:
        _make_runs(cwd)
        (cwd / "published.toml").write_text(PUBLISHED)
    finally:
        os.chdir(before)
    return cwd


def _make_runs(cwd):
    runs = (cwd / "runs").relative_to(cwd)
    made(runs, "single", num_workers=1, seconds=100, rows=98_765_432, workload=LONG)
    nodes = tuple(
        NodeUsage(name=f"node{index}", seats=(f"worker{index}", f"server{index}"), **LINKS)
        for index in range(3)
    )
    verdict = Verdict(kind="link", where="node0", sentence=SENTENCE, evidence={"wait": 0.69})
    told = {"verdict": verdict, "warnings": (WARNING,), "nodes": nodes, **stale()}
    made(runs, "ps-async", seconds=60, rows=98_765_432, workload=LONG, **told)
    made(runs, "ring", seconds=50, rows=98_765_432, workload=LONG)
    made(runs, "ring", seconds=52, rows=98_765_432, workload=LONG)
    broken = made(runs, "solo", workload=LONG)
    (broken.folder.path / "result.json").write_text("{}")


@pytest.fixture(scope="module")
def no_data(tmp_path_factory):
    """A cache folder with nothing in it: what a data set says of itself is then what ships."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=WIDTHS)
def screens(request, cwd, no_data) -> dict[str, Transcript]:
    """What each command left on the screen."""
    told = typed_in_turn(list(COMMANDS.values()), cwd, request.param)
    screens = dict(zip(COMMANDS, told, strict=True))
    return screens | {"compare": typed_python(COMPARE, cwd, request.param)}


def check(screen: Transcript, *wanted: str) -> None:
    """See that each name and number stands whole in one line."""
    assert screen.code == 0, screen.text
    assert "…" not in screen.text
    for each in wanted:
        assert any(each in line for line in screen.lines), f"{each!r} in\n{screen.text}"


def test_ls(screens):
    names = (LONG, "single", "ps-async", "ring", "solo")
    numbers = ("1 x 75", "3 x 75", "1,316,872", "438,957", "13,169", "8,779", "0.5000", "90.00 %")
    words = ("real compute", "finished", "unreadable")
    check(screens["ls"], *names, *numbers, *words, *(f"00000{each}" for each in range(5)))
    assert "cannot be read" in screens["ls"].words


def test_show(screens):
    screen = screens["show"]
    usage = ("12,345.6 MB", "23,456.7 MB", "34,567.8 MB", "45,678.9 MB", "56,789.0 MB", "198 %")
    links = ("2,000 Mbit/s", "1,998 Mbit/s", "1,987 Mbit/s")
    check(screen, LONG, "438,957", "worker2", "server0", "node2", "67,890.1 MB", *usage, *links)
    assert SENTENCE in screen.words
    assert WARNING in screen.words
    assert "98,765,432 samples in 60.00 s: 7,316 steps/s, 1,646,091 samples/s" in screen.words


def test_explain(screens):
    screen = screens["explain"]
    check(screen, LONG, "worker0", "worker1", "worker2", "% of a step", "50.0", "30.0", "node2 ")
    assert "What held" not in screen.words
    assert "Verdict" in screen.words


def test_workloads(screens):
    screen = screens["workloads"]
    check(screen, LONG, "58,164,298", "139,611,210", "230 million", "a tenth, embedded")
    assert "paceline data get cifar10" in screen.words
    assert "--set workload.train=FILE, or workload.source=generated" in screen.words


def test_study_ls(screens):
    screen = screens["study ls"]
    check(screen, "mnist-logistic", "alexnet-scaling", "L1 to L19", "R1 to R7", "177")
    assert "33,762,578" in screen.words


def test_data_ls(screens):
    check(screens["data ls"], "fashion-mnist", "60,000 + 10,000", "CC BY-SA 3.0", "184 MB")


def test_plan(screens):
    screen = screens["plan"]
    names = ("ring", "ps-sync, 1 server apart", "ps-sync, a server beside each")
    check(screen, *names, "10000", "speed-up", "eff.", "MB/step", "hours", "3,427,498")
    assert "e+0" not in screen.text
    for part in ("racks of 8 on 100 Gbit/s", "to 98,765,432 rows", "Use ", "hecked"):
        assert part in screen.words


def test_compare(screens):
    screen = screens["compare"]
    check(screen, "single", "ps-async", "ring", "100.00", "51.00 ± 1.00", "1,646,091", "987,654")
    check(screen, "1.96 ± 0.04", "90.00", "0.60", "report: reports/report.html", "link")
    assert "verdict" in screen.words


def test_no_line_is_longer_than_the_terminal_is_wide(screens, request):
    width = request.node.callspec.params["screens"]
    for name, screen in screens.items():
        full = [line for line in screen.lines if len(line) > width]
        assert full == [], name


def test_in_a_pipe_every_run_is_one_line(cwd, monkeypatch, capsys):
    from paceline.cli.stored import ls

    monkeypatch.chdir(cwd)
    ls()
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "id"
    assert len(lines) == 6  # the last is the reason why one cannot be read
    assert all(LONG in line and "real compute" in line for line in lines[:4])
