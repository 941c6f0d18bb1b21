"""What is printed of a result, whatever happened to the run."""

from dataclasses import replace

from paceline.cli.summary import print_result
from tests.made_runs import made, stale


def test_a_server_that_made_no_update_is_shown_with_a_dash(tmp_path, capsys):
    (server,) = stale()["servers"]
    idle = replace(server, updates=0, queue_s=0.1)
    print_result(made(tmp_path, "ps-async", servers=(idle,), global_steps=0).result)
    lines = capsys.readouterr().out.splitlines()
    assert ["server0", "0", "0", "0", "5.0", "%", "-"] in [each.split() for each in lines]


def test_samples_that_nothing_counted_are_shown_with_a_dash(tmp_path, capsys):
    print_result(made(tmp_path, "own", samples=0, samples_per_s=0.0).result)
    words = capsys.readouterr().out.split()
    assert words[words.index("samples") - 1] == "-"
    assert words[words.index("samples/s") - 1] == "-"
