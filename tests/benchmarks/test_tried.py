"""A measurement that fails does not take the others with it."""

import subprocess

import pytest
from tried import Failed, ended, tried


def failing(error):
    def measure():
        raise error

    return measure


@pytest.mark.parametrize(
    "error",
    [Failed("exit code 1"), AssertionError("it never came"), subprocess.TimeoutExpired("ssh", 300)],
)
def test_what_fails_is_told_and_the_next_is_measured(error, capsys):
    found = [tried("ssh", failing(error)), tried("torchrun", lambda: 2.5)]
    assert found == [None, 2.5]
    assert f"ssh: FAILED: {type(error).__name__}" in capsys.readouterr().out


def test_who_interrupts_it_means_all_of_it():
    with pytest.raises(KeyboardInterrupt):
        tried("ssh", failing(KeyboardInterrupt()))


def test_what_goes_on_at_the_end_is_killed():
    started = [subprocess.Popen(["sleep", "600"], text=True)]
    with pytest.raises(Failed), ended(started):
        raise Failed("no step")
    assert started[0].returncode is not None
