"""The places in our own files that tell in which phase a stuck worker is are there."""

import re
from pathlib import Path

import paceline
from paceline.system.stacks import _PHASES, place_in

PACKAGE = Path(paceline.__file__).parent


def test_every_place_that_tells_a_phase_exists():
    for place in _PHASES:
        file, _, function = place.partition(":")
        assert (PACKAGE / file).exists(), place
        if function:
            assert re.search(rf"def {function}\(", (PACKAGE / file).read_text()), place


def test_code_of_a_loop_between_two_calls_of_its_session_is_in_phase_train():
    frames = [
        ("mine.py", 7, "slow"),
        ("mine.py", 12, "train"),
        (PACKAGE / "engine" / "worker.py", 250, "_train_to_its_end"),
        (PACKAGE / "engine" / "worker.py", 230, "run"),
    ]
    lines = [f'  File "{file}", line {line} in {name}' for file, line, name in frames]
    place = place_in("\n".join(["Current thread 0x1 (most recent call first):", *lines]))
    assert place.phase == "train"
    assert place.lines == ("mine.py:7 in slow", "mine.py:12 in train")
