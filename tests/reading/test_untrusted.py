"""What others may have written is read within limits, or refused with `OSError` or `ValueError`."""

import os
import time
from pathlib import Path

import pytest

from paceline.reading import untrusted

REFUSED = (OSError, ValueError)


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(OSError, match="not a regular file"):
        untrusted.read_json(tmp_path / "result.json")


@pytest.mark.parametrize("target", ["/dev/zero", "there.json"])
def test_a_link_is_not_followed(tmp_path: Path, target: str):
    (tmp_path / "there.json").write_text("{}")
    (tmp_path / "result.json").symlink_to(target)
    with pytest.raises(OSError, match="a link"):
        untrusted.read_json(tmp_path / "result.json")


def test_a_link_that_a_user_named_is(tmp_path: Path):
    (tmp_path / "there.toml").write_text("a = 1")
    (tmp_path / "named.toml").symlink_to("there.toml")
    assert untrusted.read_toml(tmp_path / "named.toml", follow=True) == {"a": 1}


def test_a_file_may_not_be_larger_than_its_limit(tmp_path: Path):
    path = tmp_path / "spec.toml"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(ValueError, match="larger than"):
        untrusted.read_toml(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5000, "[" * 40 + "]" * 40])
def test_json_may_not_be_nested_deeply(text: str):
    with pytest.raises(ValueError, match="nested too deeply"):
        untrusted.parsed_json(text)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a." * 200 + "b = 1", "a." * 400_000 + "b = 1"]
)
def test_toml_may_not_be_nested_deeply(text: str):
    began_s = time.process_time()
    with pytest.raises(ValueError):
        untrusted.parsed_toml(text)
    assert time.process_time() - began_s < 60  # such a key took Python's parser many minutes


@pytest.mark.parametrize("text", [f'{{"a": {2**63}}}', '{"a": 1e', "\xff"])
def test_what_is_no_json_of_ours_is_a_value_error(text: str):
    with pytest.raises(ValueError):
        untrusted.parsed_json(text)


def test_no_text_commands_a_terminal():
    read = untrusted.parsed_json(r'{"\u001b[2J": "\u009b31m\ud800\u202eabc\r\n\tok ä 漢"}')
    assert read == {r"\x1b[2J": "\\x9b31m\\ud800\\u202eabc\\r\n\tok ä 漢"}


def test_one_line_is_one_line_and_short():
    assert untrusted.one_line("a\nb\tc\x1b") == r"a\nb c\x1b"
    assert len(untrusted.one_line("x" * 10**7, 50)) == 50


def test_dates_are_text():
    assert untrusted.parsed_toml("a = 2026-11-18") == {"a": "2026-11-18"}
