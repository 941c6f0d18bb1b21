"""`paceline study`, as a user types it."""

import polars
import pytest

from paceline.cli.study import _line
from paceline.store.runs import RunDir
from paceline.studies import STUDIES
from paceline.studies.executor import StudyStanding, carry_out
from paceline.studies.finding import place
from paceline.studies.folder import StudyDir
from paceline.studies.grid import Grid
from paceline.studies.here import settle
from tests.commands import paceline

SMALL = {
    "cluster.name": "inline",
    "workload.name": "synthetic",
    "workload.bytes": "40KB",
    "worker_steps": 3,
    "eval_samples": 100,
}


def test_ls_names_every_study_and_what_waits(tmp_path):
    done = paceline("study", "ls", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in STUDIES:
        assert name in done.stdout
    assert "L1 to L19" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no study of that name (choices: mnist-logistic"),
        (["mnist-logistic", "--quick", "--full"], "--quick is given too"),
        (["mnist-logistic", "--set", "batch"], "not of the form FIELD=VALUE"),
        (["mnist-logistic", "--set", "seed=1"], "seed = 1: this study varies it"),
        (["ps-vs-ring", "--only", "links,rings"], "--only = 'rings': the study has no such group"),
        (["mnist-logistic", "batch=10"], "batch = 10: this study varies it"),
        (["mnist-logistic", "workload=synthetic"], "workload = 'synthetic': a study sets its own"),
        (
            ["mnist-logistic", "workload.name=synthetic"],
            "workload = 'synthetic': a study sets its own",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(arguments, message, tmp_path):
    done = paceline("study", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_field_that_is_wrong_everywhere_starts_nothing(tmp_path):
    done = paceline("study", "mnist-logistic", "--set", "bogus=1", cwd=tmp_path)
    assert done.returncode == 2
    assert "bogus = 1: no such field" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_is_refused_leaves_the_note_of_the_one_that_goes_on(tmp_path):
    folder = StudyDir(place(tmp_path / "runs", "alexnet-scaling", "quick"))
    folder.note("alexnet-scaling", "quick", SMALL)
    with folder.held():
        done = paceline("study", "alexnet-scaling", "--set", "worker_steps=2", cwd=tmp_path)
    assert done.returncode != 0
    assert "another process carries this study out" in done.stderr
    assert folder.noted() == ("alexnet-scaling", "quick", SMALL)


def test_some_of_its_groups_can_be_carried_out_alone_and_the_page_is_of_all(tmp_path):
    only = ("--only", "stale-rate", "--set", "workload.subset=tenth")
    done = paceline("study", "ps-vs-ring", "--quick", *only, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = place(tmp_path / "runs", "ps-vs-ring", "quick")
    names = sorted(path.name.split("-", 2)[2] for path in (folder / "runs").iterdir())
    assert [name.rpartition("-")[0] for name in names] == [
        "logistic-mnist-ps-async",
        "logistic-mnist-ps-sync",
    ]
    assert "R1     cannot be tested here" in done.stdout


def test_report_writes_the_page_of_a_study_again(tmp_path):
    folder = StudyDir(tmp_path / "study-alexnet-scaling-quick")
    folder.note("alexnet-scaling", "quick", {"cluster.name": "local"})
    done = paceline("report", folder.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 claims cannot be tested here: A1, A2, A3, A4." in done.stdout
    assert "alexnet-scaling: AlexNet" in (folder.path / "report.html").read_text()


@pytest.fixture(scope="module")
def cwd(tmp_path_factory):
    """Where of a study two runs are finished, one was killed, and others were not begun."""
    cwd = tmp_path_factory.mktemp("unfinished")
    folder = StudyDir(place(cwd / "runs", "alexnet-scaling", "quick"))
    folder.note("alexnet-scaling", "quick", SMALL)
    runs = settle(Grid.read("alexnet-scaling").plan("quick", SMALL))
    first, second, third = [each for each in runs if each.spec is not None][:3]
    carry_out([first, second], folder)
    killed = RunDir(folder.runs / "20261116-000000-killed")
    killed.path.mkdir()
    killed.spec.write_text(third.spec.toml())
    return cwd


class TestUnfinished:
    def test_it_is_reported_by_its_name_with_what_is_there(self, cwd):
        done = paceline("report", "alexnet-scaling", "--title", "So far", "--to", "page", cwd=cwd)
        assert done.returncode == 0, done.stderr
        assert "2 of 4 runs so far" in done.stdout
        page = (cwd / "page" / "report.html").read_text()
        assert "<title>So far</title>" in page
        assert "real-ps-sync-2-0" in page
        assert "not carried out yet" in page

    def test_its_runs_are_exported_by_its_name(self, cwd):
        done = paceline("export", "alexnet-scaling", "--to", "tables", cwd=cwd)
        assert done.returncode == 0, done.stderr
        results = polars.read_csv(cwd / "tables" / "results.csv")
        assert results["strategy"].to_list() == ["ps-sync", "ps-sync"]

    def test_one_that_was_not_begun_is_told(self, cwd):
        done = paceline("report", "lenet-scaling", cwd=cwd)
        assert done.returncode != 0
        assert "study = 'lenet-scaling': not in runs" in done.stderr


def test_a_line_a_run_tells_how_long_the_whole_will_take(capsys):
    from paceline.display.consoles import wide_console

    standing = StudyStanding(num_done=3, num_all=9, name="single-0", failure="no data", left_s=75.0)
    _line(wide_console(), standing)
    assert capsys.readouterr().out == "[3/9] single-0: failed: no data · 1 min 15 s left\n"
