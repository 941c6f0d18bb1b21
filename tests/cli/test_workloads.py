"""`paceline workloads` and `paceline show --graph`, as a user types them."""

import json

import pytest
from typer.testing import CliRunner

from paceline.cli.app import app
from paceline.cli.workloads import count
from paceline.workloads import WORKLOADS
from tests.commands import paceline


def printed(*arguments: str) -> str:
    """What a command prints; in this process, which has imported torch already."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> dict:
    """The table's rows by name, of an empty cache folder."""
    folder = tmp_path_factory.mktemp("nothing")
    done = paceline("workloads", "--json", "--data-dir", folder, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {row["workload"]: row for row in json.loads(done.stdout)}


def test_every_workload_is_listed_with_its_size(listed):
    assert list(listed) == list(WORKLOADS.entries)
    assert listed["logistic-mnist"]["parameters"] == 7_850
    assert listed["logistic-mnist"]["bytes"] == 4 * 7_850
    assert listed["logistic-mnist"]["multiply_adds"] == 7_840
    assert listed["vgg19-cifar10"]["parameters"] == 139_611_210
    assert listed["imagefolder"]["parameters"] is None  # it follows from the folder


def test_data_that_is_not_here_comes_with_the_command_that_gets_it(listed):
    assert listed["resnet20-cifar10"]["here"] == "no"
    assert listed["resnet20-cifar10"]["remedy"] == "paceline data get cifar10"
    assert listed["lenet-mnist"]["here"] == "a tenth, embedded"
    assert listed["synthetic"]["here"] == "yes"
    assert listed["synthetic"]["remedy"] == ""
    assert "workload.folder" in listed["imagefolder"]["remedy"]


def test_a_person_reads_a_table():
    heading, *lines = printed("workloads").splitlines()
    assert "multiply-adds per row" in heading
    assert len(lines) == len(WORKLOADS.entries)
    (vgg,) = [line for line in lines if line.startswith("vgg16-cifar10")]
    assert "134,301,514" in vgg
    assert "433 million" in vgg


def test_the_layers_of_a_model():
    settings = ("--set", "workload.num_classes=1000", "workload.image_size=224")
    text = printed("show", "--graph", "alexnet-cifar10", *settings)
    assert "64 x 55 x 55" in text
    total = text.splitlines()[-1]
    assert "61,100,840 parameters, 233.1 MiB" in total
    assert "714 million multiply-adds" in total


def test_the_layers_as_json():
    told = json.loads(printed("show", "--graph", "lenet-mnist", "--json"))
    assert told["parameters"] == 61_706
    assert told["layers"][0] == {
        "name": "0",
        "kind": "Conv2d",
        "inputs": [1, 28, 28],
        "output": [6, 28, 28],
        "num_parameters": 156,
        "multiply_adds": 117_600,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--graph", "lenet"], "no workload of that name"),
        (["--graph", "lenet-mnist", "--set", "batch=3"], "only fields of the workload can be set"),
        (["--graph", "lenet-mnist", "--set", "workload.depth=3"], "no such field"),
        (["last", "--set", "workload.subset=tenth"], "only with --graph"),
    ],
)
def test_what_is_wrong_is_told(arguments, words, tmp_path):
    done = paceline("show", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1 thousand"), (714_188_480, "714 million")],
)
def test_large_numbers_are_written_with_a_word(number, text):
    assert count(number) == text
