"""A run of a study is known by the table of its spec, whatever version wrote it."""

import tomllib

import pytest

from paceline.spec import RunSpec
from paceline.studies.grid import Grid
from paceline.studies.keys import key_of, key_of_table

SPEC = {
    "workload": {"name": "vgg19-cifar10"},
    "strategy": "ps-ssp",
    "num_workers": 2,
    "optimizer": {"name": "adam", "lr": 0.1, "schedule": {"name": "cosine", "end_step": 9}},
    "steps": 5,
}


@pytest.fixture
def table() -> dict:
    return tomllib.loads(RunSpec.from_table(SPEC).toml())


def test_a_spec_and_its_table_have_one_key(table: dict):
    assert key_of(RunSpec.from_table(SPEC)) == key_of_table(table)


@pytest.mark.parametrize("name", ["mnist-logistic", "ps-vs-ring", "criteo-sparse"])
def test_runs_of_a_study_have_keys_of_their_own(name: str):
    specs = [RunSpec.from_table(plan.table()) for plan in Grid.read(name).plan("quick")]
    texts = {spec.toml() for spec in specs}
    assert len({key_of(spec) for spec in specs}) == len(texts)


def test_fields_that_an_earlier_version_did_not_have_change_nothing(table: dict):
    key = key_of_table(table)
    del table["dilation"], table["record"]["profile"], table["cluster"]
    del (
        table["strategy"]["sparse"],
        table["workload"]["depth"],
        table["optimizer"]["schedule"]["warmup_steps"],
    )
    assert key_of_table(table) == key


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"steps": 6}, {"workload": {"name": "x.py:Mine"}}, {"strategy": []}],
)
def test_another_value_is_another_run(table: dict, change: dict):
    assert key_of_table(table | change) != key_of_table(table)
