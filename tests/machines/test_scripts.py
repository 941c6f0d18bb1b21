"""A user's own training script on three machines."""

import json

from tests.engine.scripted.scripts import EXAMPLES
from tests.machines.runs import assert_all_were_recorded, assert_nothing_is_left, only_run, over_ssh


def test_a_script_trains_on_three_hosts(hosts, folder):
    command = over_ssh("--strategy", "ring", "--steps", 6, workload=EXAMPLES / "mnist.py")
    command = [each for each in command if each != "workload.subset=tenth"]  # a script has none
    done = hosts.run("a", [*command, "--", "--batch=16"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert_nothing_is_left(hosts)
    run = only_run(folder)
    assert_all_were_recorded(run.path, "ssh")
    result = json.loads((run.path / "result.json").read_text())
    assert (result["status"], result["global_steps"], result["samples"]) == ("finished", 6, 288)
    assert "epoch 0 batch 0: loss" in done.stdout + done.stderr
    assert (run.source / "mnist.py").exists()
