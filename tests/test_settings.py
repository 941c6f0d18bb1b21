"""The one rule by which fields of several sources become the table of a spec."""

import pytest

from paceline.errors import SpecError
from paceline.settings import LENGTHS, Asked, flat, merged, nested
from paceline.spec import RunSpec
from paceline.workloads.mnist import LogisticMnist

KEPT = {
    "workload": {"name": "lenet-mnist", "subset": "tenth"},
    "optimizer": {"name": "sgd", "lr": 0.1, "schedule": {"name": "cosine", "end_step": 9}},
    "cluster": {"name": "emulated", "link": {"node0": "1gbit"}},
    "batch": 64,
    "epochs": 2,
}


def test_a_later_length_takes_the_place_of_every_earlier_one():
    assert merged({"epochs": 2, "batch": 3}, {"steps": 5}) == {"batch": 3, "steps": 5}


def test_two_lengths_of_one_source_stay_so_that_they_are_refused():
    assert Asked(KEPT, {"steps": 5, "seconds": 1.0}).table().keys() & LENGTHS == {
        "steps",
        "seconds",
    }


def test_another_name_drops_the_fields_of_the_earlier_part():
    emulated = {"cluster.name": "emulated", "cluster.link": "1gbit"}
    assert merged(emulated, {"cluster.name": "local"}) == {"cluster.name": "local"}
    assert merged(emulated, {"cluster": "local"}) == {"cluster.name": "local"}
    same = merged(emulated, {"cluster.name": "emulated", "cluster.cpus": 1})
    assert same == {**emulated, "cluster.cpus": 1}


def test_a_name_that_nothing_is_known_of_before_drops_nothing():
    lr = {"optimizer.lr": 0.1}
    assert merged(lr, {"optimizer.name": "adam"}) == {**lr, "optimizer.name": "adam"}


@pytest.mark.parametrize("direction", [1, -1])
def test_within_a_source_the_order_means_nothing(direction):
    given = {"optimizer.lr": 0.5, "optimizer.name": "adam", "workload": "logistic-mnist"}
    asked = Asked(KEPT, dict(list(given.items())[::direction]))
    table = asked.table()
    assert table["optimizer"] == {"name": "adam", "lr": 0.5}
    assert table["workload"] == {"name": "logistic-mnist"}


def test_a_schedule_by_its_name_alone_drops_the_fields_of_the_earlier_one():
    given = {"optimizer.schedule": "step", "optimizer.schedule.every_steps": 3}
    table = Asked(KEPT, given).table()
    assert table["optimizer"]["schedule"] == {"name": "step", "every_steps": 3}


def test_another_workload_does_not_keep_what_the_file_chose_for_its_own():
    table = Asked(KEPT, {"workload.name": "logistic-mnist", "seed": 1}).table()
    assert table.keys() == {"workload", "cluster", "epochs", "seed"}
    given = Asked(KEPT, {"batch": 7}).table({"workload.name": "logistic-mnist"})
    assert given["batch"] == 7


def test_one_value_for_all_takes_the_place_of_earlier_values_for_each():
    assert Asked(KEPT, {"cluster.link": "2gbit"}).table()["cluster"]["link"] == "2gbit"


@pytest.mark.parametrize("direction", [1, -1])
def test_one_value_for_all_and_values_for_some_are_refused(direction):
    given = {"cluster.cpus": 0.5, "cluster.cpus.node2": 0.25}
    with pytest.raises(SpecError, match="one value for all, or one for each"):
        nested(merged(dict(list(given.items())[::direction])))


def test_tables_come_back_as_they_were():
    assert nested(flat(KEPT)) == KEPT
    odd = {"workload": {"name": "mine.py:Mine", "weights": {"a.b": 1}, "none": {}}}
    assert nested(flat(odd)) == odd


def test_live_descriptions_stay_as_they_are():
    workload = LogisticMnist(subset="tenth")
    table = Asked({"workload": workload}, {"strategy": "solo", "num_workers": 2}).table()
    spec = RunSpec.from_table(table)
    assert (spec.workload, spec.strategy.name) == (workload, "solo")
