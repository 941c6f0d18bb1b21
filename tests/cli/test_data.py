"""`paceline data` as a user meets it: what is printed, and the exit code."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from paceline.cli.data import app
from paceline.errors import DataError, SpecError
from paceline.workloads.data import catalogue, fetch


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(part) for part in arguments])


@pytest.fixture
def cached_mnist():
    if any(state.state != "ok" for state in fetch.verify("mnist")):
        pytest.skip(f"full mnist is not in {catalogue.default_data_dir()}")
    return catalogue.default_data_dir() / "mnist"


def test_ls_shows_what_there_is_and_what_is_here(run, tmp_path):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(b"cut short")
    result = run("ls", "--data-dir", tmp_path)
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert result.exit_code == 0
    assert "60,000 + 10,000" in rows["mnist"]
    assert rows["mnist"].rstrip().endswith("a tenth, embedded")
    assert rows["fashion-mnist"].rstrip().endswith("MIT           no")
    assert rows["cifar10"].rstrip().endswith("0 of 6 files")
    assert str(tmp_path) in result.stdout
    assert "paceline data get NAME" in result.stdout


def test_get_from_a_folder_then_verify_then_get_again(run, tmp_path, cached_mnist):
    where = ("--data-dir", tmp_path)
    result = run("get", "mnist", "--from", cached_mnist, *where)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"mnist is in {tmp_path / 'mnist'}\n"
    assert result.stderr == f"looking in {cached_mnist}\n"

    result = run("verify", "mnist", *where)
    assert result.exit_code == 0
    assert result.stdout.count("ok ") == 4

    result = run("get", "mnist", *where)
    assert "already complete" in result.stderr
    assert "yes" in run("ls", *where).stdout


def test_verify_says_which_file_is_wrong_and_exits_with_1(run, tmp_path, cached_mnist):
    shutil.copytree(cached_mnist, tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(bytes(10_008))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").unlink()
    result = run("verify", "mnist", "--data-dir", tmp_path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "ok       mnist/train-images-idx3-ubyte" in lines
    assert "missing  mnist/train-labels-idx1-ubyte" in lines
    assert lines[-1].startswith("corrupt  mnist/t10k-labels-idx1-ubyte: content differs: md5 is")
    assert "should be 27ae3e4e09519cfbb04c329615203637" in lines[-1]
    assert "paceline data get mnist" in result.stderr


def test_verify_without_a_name_looks_at_all(run, tmp_path):
    result = run("verify", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.count("missing") == 4 + 4 + 6


@pytest.mark.parametrize("command", ["get", "verify"])
def test_an_unknown_name_is_left_to_the_main_command_with_its_choices(run, tmp_path, command):
    error = run(command, "minst", "--data-dir", tmp_path).exception
    assert isinstance(error, SpecError)
    (problem,) = error.problems
    assert (problem.field, problem.value) == ("data set", "minst")
    assert problem.choices == ("mnist", "fashion-mnist", "cifar10")


def test_a_folder_that_is_not_there_is_left_to_the_main_command(run, tmp_path):
    error = run("get", "mnist", "--from", tmp_path / "no", "--data-dir", tmp_path).exception
    assert isinstance(error, DataError)
    assert error.exit_code == 2


@pytest.mark.parametrize("command", ["ls", "get", "verify"])
def test_help_names_the_cache_folder(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--data-dir" in result.stdout
    assert "XDG_CACHE_HOME" in result.stdout
