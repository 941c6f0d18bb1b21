"""Which sides a comparison has: the same rows for all, each once, at its own best."""

import dataclasses
from pathlib import Path

import pytest

from paceline.clusters.emulated.describe import Emulated
from paceline.comparing import GRID, Contest, best_tuned, sides, tunings
from paceline.engine import driver
from paceline.errors import DataError, SpecError, StoreError
from paceline.outcome.results import Result
from paceline.testing import Moons

TABLE = {"workload": {"name": "logistic-mnist", "subset": "tenth"}, "num_workers": 3, "epochs": 10}


def names(specs):
    return [(spec.strategy.name, spec.num_workers) for spec in specs]


def result(**fields) -> Result:
    known = dict.fromkeys(("run", "workload", "strategy", "cluster", "meaning"), "")
    counts = {"num_workers": 1, "batch_size": 1, "seed": 0}
    return Result(**({"status": "finished"} | known | counts | fields))


class TestSides:
    def test_each_strategy_is_a_side_and_one_that_cannot_share_has_one_worker(self):
        assert names(sides(TABLE)) == [
            ("single", 1),
            ("ps-async", 3),
            ("ps-sync", 3),
            ("ring", 3),
        ]

    @pytest.mark.parametrize(
        ("given", "workers"), [({}, [1, 2]), ({"num_workers": 6}, [1, 6])], ids=["alone", "both"]
    )
    def test_nodes_say_how_many_workers_there_are_and_single_needs_one(self, given, workers):
        cluster = {"name": "emulated", "nodes": 2}
        table = {"workload": TABLE["workload"], "epochs": 10, "cluster": cluster, **given}
        found = sides(table, ["single", "ring"])
        assert [spec.num_workers for spec in found] == workers

    def test_servers_of_their_own_are_among_the_nodes(self):
        cluster = {"name": "emulated", "nodes": 3}
        strategy = {"placement": "separate"}
        table = {"workload": TABLE["workload"], "epochs": 10}
        found = sides({**table, "cluster": cluster, "strategy": strategy}, ["ps-sync", "ring"])
        assert names(found) == [("ps-sync", 2), ("ring", 3)]

    def test_a_single_worker_has_the_first_of_unequal_nodes(self):
        unequal = {"node0": 2e8, "node2": 1e8}
        cluster = {"name": "emulated", "links": unequal, "cpus": {"node2": 0.5}}
        single, ring = sides({**TABLE, "cluster": cluster}, ["single", "ring"])
        assert single.cluster == Emulated(links={"node0": 2e8})
        assert ring.cluster == Emulated(links=unequal, cpus={"node2": 0.5})

    @pytest.mark.parametrize(
        "cluster", [{"name": "emulated", "nodes": 0}, {"name": "local", "nodes": 3}], ids=str
    )
    def test_nodes_that_cannot_be_are_told(self, cluster):
        table = {"workload": TABLE["workload"], "epochs": 10, "cluster": cluster}
        with pytest.raises(SpecError, match=r"cluster\.nodes"):
            sides(table, ["single", "ring"])

    def test_accuracy_is_looked_at_after_the_same_rows(self):
        rows = {
            spec.strategy.name: spec.eval_every
            * 75
            * (spec.num_workers if spec.strategy.in_step else 1)
            for spec in sides(TABLE)
        }
        assert max(rows.values()) <= 1.1 * min(rows.values())

    @pytest.mark.parametrize(
        ("length", "steps"),
        [
            ({"steps": 39}, [39] * 4),
            ({"worker_steps": 500}, [500, 1500, 500, 500]),
            ({"samples": 60_000}, [800, 800, 266, 266]),
            ({"samples": 3_000}, [40, 40, 13, 13]),
            ({"epochs": 10}, [800, 800, 266, 266]),
        ],
        ids=str,
    )
    def test_accuracy_is_looked_at_a_few_times_but_not_more_than_twenty(self, length, steps):
        table = {key: value for key, value in TABLE.items() if key != "epochs"} | length
        every = [spec.eval_every for spec in sides(table)]
        counts = [total // each for total, each in zip(steps, every, strict=True)]
        assert all(3 <= count <= 20 for count in counts)

    def test_of_a_length_in_seconds_the_user_has_to_say_when(self):
        table = {"workload": TABLE["workload"], "num_workers": 3, "seconds": 2}
        assert {spec.eval_every for spec in sides(table)} == {None}

    def test_replayed_compute_is_not_evaluated(self):
        cluster = {"name": "emulated", "link": "2gbit"}
        table = {"workload": "alexnet-cifar10", "device": "replay:k80", "cluster": cluster}
        specs = sides(table | {"epochs": 1}, ["single", "ring"])
        assert {spec.eval_every for spec in specs} == {None}

    def test_what_the_user_said_of_evaluations_stays(self):
        assert {spec.eval_every for spec in sides(TABLE | {"eval_every": 7})} == {7}

    def test_every_value_is_combined_with_every_strategy(self):
        made = sides(TABLE, ["single", "ring"], {"batch": [10, 100]})
        assert [(spec.batch, spec.strategy.name) for spec in made] == [
            (10, "single"),
            (10, "ring"),
            (100, "single"),
            (100, "ring"),
        ]

    def test_sides_that_come_out_equal_are_run_once(self):
        made = sides(TABLE, ["single", "ring"], {"num_workers": [1, 2, 3]})
        assert names(made) == [("single", 1), ("ring", 1), ("ring", 2), ("ring", 3)]

    def test_a_field_goes_to_the_strategies_that_have_it(self):
        table = TABLE | {"strategy": {"servers": 2}}
        made = {spec.strategy.name: spec.strategy for spec in sides(table)}
        assert made["ps-sync"].servers == made["ps-async"].servers == 2
        assert not hasattr(made["ring"], "servers")

    def test_all_that_is_wrong_is_told_at_once(self):
        with pytest.raises(SpecError) as failure:
            sides(TABLE | {"epochs": -1}, ["ring", "single"], {"batch": [0, "x"]})
        assert {each.field for each in failure.value.problems} == {"epochs", "batch"}
        assert len(failure.value.problems) == 3


class TestTuning:
    def test_the_grid_is_around_the_workloads_own_rate(self):
        (side,) = sides(TABLE, ["ring"])
        tried = tunings(side)
        assert [spec.optimizer.lr for spec in tried] == pytest.approx([0.01 * f for f in GRID])
        assert {dataclasses.replace(spec, optimizer=side.optimizer) for spec in tried} == {side}

    def test_the_first_at_the_target_is_best(self):
        tried = tunings(sides(TABLE, ["ring"])[0])
        seconds = (None, 9.0, 4.0, 5.0)
        results = [result(seconds_to_target=each, test_loss=0.1) for each in seconds]
        assert best_tuned(list(zip(tried, results, strict=True))) is tried[2]

    def test_without_a_target_the_least_loss_is_best(self):
        tried = tunings(sides(TABLE, ["ring"])[0])
        results = [result(test_loss=each) for each in (0.9, 0.3, 0.5, None)]
        assert best_tuned(list(zip(tried, results, strict=True))) is tried[1]

    def test_of_failures_none_is_best(self):
        (side,) = sides(TABLE, ["ring"])
        assert best_tuned([(side, result(status="failed", test_loss=0.1))]) is None


class Made(Moons):
    """Its rows are there only once they were made."""

    def prepare(self, progress):
        progress("making rows", 1, 1)
        Path("made").touch()

    def data(self, part, dtype):
        if not Path("made").exists():
            raise DataError("no such file")
        return super().data(part, dtype)


class TestBeforeAnythingStarts:
    def test_data_that_is_made_once_is_made_first(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        told = []
        table = {"workload": Made(), "cluster": "inline", "epochs": 1, "batch": 8}
        made = sides(table, ["single", "ring"], progress=lambda *each: told.append(each))
        assert len(made) == 2
        assert told[0] == ("making rows", 1, 1)

    def test_data_that_cannot_be_read_is_a_message(self):
        class Broken(Moons):
            def num_rows(self):
                raise ValueError("no such column")

        with pytest.raises(SpecError, match="its data cannot be read: ValueError: no such column"):
            sides({"workload": Broken(), "cluster": "inline", "epochs": 1, "batch": 8}, ["single"])


def test_a_run_that_cannot_be_started_ends_no_contest(tmp_path, monkeypatch):
    table = {"workload": Moons(), "cluster": "inline", "worker_steps": 3, "batch": 8}
    made = sides(table, ["single", "ring"])
    carry_out = driver.run

    def full_at_first(spec, **options):
        if spec is made[0]:
            raise StoreError("the disk is full")
        return carry_out(spec, **options)

    monkeypatch.setattr(driver, "run", full_at_first)
    contest = Contest(total=2, out=tmp_path)
    contest.run(made)
    assert [reason for _, reason in contest.failures] == ["the disk is full"]
    assert [result.status for _, result in contest.results] == ["finished"]
