"""What is said of starts, and what becomes of a part that fails."""

import pytest
from kept import Kept
from tried import Failed

import machines


def test_a_start_is_measured_beyond_the_imports_of_its_own_round(capsys):
    rounds = [{"imports": 3.0, "ssh": 4.0}, {"imports": 5.0, "ssh": 6.2}]
    assert machines._start_told("ssh", rounds)
    assert "beyond the imports: 1.10 s (1.00 to 1.20, n=2)" in capsys.readouterr().out
    assert not machines._start_told("ssh", [{"imports": 3.0, "ssh": 5.0}])


@pytest.mark.parametrize("failed", [{"imports": None, "ssh": 4.0}, {"imports": 3.0, "ssh": None}])
def test_a_start_that_failed_is_a_miss(failed):
    assert not machines._start_told("ssh", [failed])
    assert not machines._start_told("ssh", [{"imports": 3.0, "ssh": 4.0}, failed])


def test_a_run_that_fails_ends_its_part_only(monkeypatch, tmp_path, capsys):
    def part(count, kept):
        yield True
        machines._result(1, "", "error: node1 (b) is lost", tmp_path)

    monkeypatch.setitem(machines.PARTS, "speed", part)
    assert machines._carried_out("speed", 1, Kept(None)) == [False]
    assert "speed: FAILED: Failed: exit code 1" in capsys.readouterr().out
    with pytest.raises(Failed):
        machines._result(1, "", "", tmp_path)
