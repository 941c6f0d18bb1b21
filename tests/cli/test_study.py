"""`paceline study`, as a user types it."""

import pytest

from paceline.cli.study import _line
from paceline.studies import STUDIES
from paceline.studies.executor import Standing
from paceline.studies.folder import StudyDir
from tests.commands import paceline


def test_ls_names_every_study_and_what_waits(tmp_path):
    done = paceline("study", "ls", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in (*STUDIES, "faults"):
        assert name in done.stdout
    assert "L1 to L19" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no study of that name (choices: mnist-logistic"),
        (["faults"], "when fault injection is there"),
        (["mnist-logistic", "--quick", "--full"], "--quick is given too"),
        (["mnist-logistic", "--set", "batch"], "not of the form FIELD=VALUE"),
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


def test_report_writes_the_page_of_a_study_again(tmp_path):
    folder = StudyDir(tmp_path / "study-alexnet-scaling-quick")
    folder.note("alexnet-scaling", "quick", {"cluster.name": "local"})
    done = paceline("report", folder.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 claims cannot be tested here: A1, A2, A3, A4." in done.stdout
    assert "alexnet-scaling: AlexNet" in (folder.path / "report.html").read_text()


def test_a_line_a_run_tells_how_long_the_whole_will_take(capsys):
    from paceline.cli.tables import wide_console

    standing = Standing(num_done=3, num_all=9, name="single-0", failure="no data", left_s=75.0)
    _line(wide_console(), standing)
    assert capsys.readouterr().out == "[3/9] single-0: failed: no data · 1 min 15 s left\n"
