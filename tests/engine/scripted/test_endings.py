"""How a script may leave an evaluation or its loop, and how the run ends then."""

import pytest

from paceline.errors import SeatFailed
from tests.engine.scripted.scripts import log_of, run_script
from tests.engine.scripted.test_bad_use import LOOP, WRAP, failing, line_of, written

CAUGHT = """
try:
    with paceline.evaluating():
        paceline.log(seen=1.0)
        {who}raise ValueError("not today")
except ValueError as error:
    print("went on after", error)
"""
LEFT = """
with paceline.evaluating():
    paceline.log(seen=1.0)
    {who}sys.exit(0)
"""
ON_ONE = "if paceline.rank() == 1: "


def test_an_error_in_an_evaluation_may_be_caught(tmp_path):
    script = written(tmp_path, WRAP, LOOP, CAUGHT.format(who=""), LOOP)
    result = run_script(tmp_path / "runs", script, cluster="inline")
    assert (result.status, result.global_steps) == ("finished", 32)
    assert result.test_metrics == {"seen": 1.0}


def test_a_script_may_end_in_an_evaluation(tmp_path):
    script = written(tmp_path, WRAP, LOOP, LEFT.format(who=""), LOOP)
    result = run_script(tmp_path / "runs", script, cluster="inline")
    assert (result.status, result.global_steps) == ("finished", 16)


@pytest.mark.parametrize("shared", ["", "shared=True"])
def test_one_worker_may_catch_an_error_and_all_go_on(tmp_path, shared):
    caught = CAUGHT.format(who=ON_ONE).replace("evaluating()", f"evaluating({shared})")
    read = caught.replace("paceline.log(", "next(iter(loader)); paceline.log(")
    script = written(tmp_path, WRAP, LOOP, read, LOOP)
    result = run_script(tmp_path / "runs", script, strategy="ring")
    assert [each.worker_steps for each in result.workers] == [16, 16]
    assert "went on after not today" in log_of(result, "worker1")
    assert not [each for each in result.warnings if "different numbers" in each]


def test_one_worker_may_end_in_an_evaluation_and_the_others_are_told(tmp_path):
    script = written(tmp_path, WRAP, LOOP, LEFT.format(who=ON_ONE), LOOP)
    result = run_script(tmp_path / "runs", script, strategy="ring")
    assert result.status == "finished"
    assert [each.worker_steps for each in result.workers] == [8, 8]
    (warning,) = [each for each in result.warnings if "different numbers" in each]
    assert warning.startswith("worker0: it ended after 8 steps, since worker1 made no more")


def test_one_worker_may_end_in_the_middle_and_the_others_are_told(tmp_path):
    parts = LOOP + f"    {ON_ONE}sys.exit(0)\n"
    result = run_script(tmp_path / "runs", written(tmp_path, WRAP, parts), strategy="ring")
    assert [each.worker_steps for each in result.workers] == [1, 1]
    assert any("since worker1 made no more" in each for each in result.warnings)


def test_an_error_in_an_evaluation_of_one_worker_that_is_not_caught_is_named(tmp_path):
    failed = f"with paceline.evaluating():\n    {ON_ONE}raise ValueError('not today')\n"
    script = written(tmp_path, WRAP, LOOP, failed, LOOP)
    with pytest.raises(SeatFailed, match="ValueError: not today") as caught:
        run_script(tmp_path / "runs", script, strategy="ring")
    assert caught.value.seat == "worker1"
    assert line_of(tmp_path, "raise ValueError") in caught.value.reason


EPOCHS = """
for epoch in range(5):
    losses = []
    for inputs, wanted in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    {after}
"""
FOREVER = """
batches = iter(loader)
for _ in range(16):
    inputs, wanted = next(batches)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    optimizer.step()
"""
MEAN = "print('mean', sum(losses) / len(losses))"


@pytest.mark.parametrize(
    ("loop", "text", "error"),
    [
        (EPOCHS.format(after=MEAN), "print('mean'", "ZeroDivisionError: division by zero"),
        (FOREVER, "next(batches)", "StopIteration"),
    ],
)
def test_what_a_limit_makes_a_script_raise_is_a_warning(tmp_path, loop, text, error):
    script = written(tmp_path, WRAP, loop)
    result = run_script(tmp_path / "runs", script, cluster="inline", steps=8)
    assert (result.status, result.global_steps) == ("finished", 8)
    (warning,) = [each for each in result.warnings if error in each]
    assert warning.startswith("worker0: its loader had ended with the run's last step, and then: ")
    assert line_of(tmp_path, text) in warning


def test_all_workers_may_raise_it(tmp_path):
    script = written(tmp_path, WRAP, EPOCHS.format(after=MEAN))
    result = run_script(tmp_path / "runs", script, strategy="ring", steps=8)
    assert (result.status, result.global_steps) == ("finished", 8)
    assert len([each for each in result.warnings if "ZeroDivisionError" in each]) == 2
    assert "ZeroDivisionError" in log_of(result)


def test_without_a_limit_the_same_error_is_a_failure(tmp_path):
    said = failing(tmp_path, WRAP, EPOCHS.format(after="losses = []; " + MEAN))
    assert "ZeroDivisionError" in said


def test_an_evaluation_that_fails_is_a_failure_after_a_limit_too(tmp_path):
    after = "with paceline.evaluating():\n        nothing / 0"
    script = written(tmp_path, WRAP, EPOCHS.format(after=after))
    with pytest.raises(SeatFailed, match="NameError: name 'nothing'"):
        run_script(tmp_path / "runs", script, cluster="inline", steps=8)


def test_an_exit_code_is_a_failure_after_a_limit_too(tmp_path):
    script = written(tmp_path, WRAP, EPOCHS.format(after="losses or sys.exit(4)"))
    with pytest.raises(SeatFailed, match=r"sys\.exit\(4\)"):
        run_script(tmp_path / "runs", script, cluster="inline", steps=8)


def test_what_is_installed_below_the_scripts_folder_is_not_its_own_line(tmp_path):
    """As with an environment in the folder of the project."""
    place = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    place.mkdir(parents=True)
    (place / "installed.py").write_text("def fail(*given):\n    raise KeyError('here')\n")
    (tmp_path / "beside.py").write_text("import installed\ndef call():\n    installed.fail()\n")
    parts = [f"sys.path.append({str(place)!r})\nimport beside\n", WRAP, LOOP]
    said = failing(tmp_path, *parts, "beside.call()")
    assert "beside.py line 3: KeyError: 'here'" in said
