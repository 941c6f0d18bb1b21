"""The benchmark of small and sparse models says at once what it cannot measure."""

import sys

from small_and_sparse import there


def test_a_python_that_is_there_is_used(capsys):
    assert there("--before", sys.executable) == sys.executable
    assert capsys.readouterr().out == ""


def test_one_that_is_not_is_said_and_left_out(tmp_path, capsys):
    missing = str(tmp_path / "bin" / "python")
    assert there("--before", missing) is None
    assert there("--peers", None) is None
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"--before {missing}: no such program: measured without its sides"
    assert second == "no --peers: measured without its sides"
