"""Grids: which runs a study's file stands for, and in what order."""

from collections import Counter

import pytest

from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.studies import STUDIES, load
from paceline.studies.grid import Grid
from paceline.studies.here import key_of, settle, settle_by

TEXT = """
title = "a grid"
reports = "none"

[claims]
X1 = "something"

[common]
workload.name = "logistic-mnist"
cluster.name = "inline"
epochs = 3

[quick]
says = "little"
set = { workload.subset = "tenth" }

[full]
says = "all"

[[runs]]
group = "one"
set = { strategy.name = "single" }
seeds = 2
full = { seeds = 3 }

[[runs]]
group = "many"
each = { strategy.name = ["ps-async", "ps-sync"], num_workers = [2, 3] }
set = { steps = 5 }
seeds = 2
quick = { each = { num_workers = [2] } }
"""


@pytest.fixture
def grid() -> Grid:
    return Grid.parse("a-grid", TEXT)


def test_every_combination_of_every_seed_is_a_run(grid):
    quick = Counter(each.group for each in grid.plan("quick"))
    assert quick == {"one": 2, "many": 4}
    assert Counter(each.group for each in grid.plan("full")) == {"one": 3, "many": 8}


def test_rounds_go_through_the_runs_in_turn_and_back(grid):
    first, second = (
        [each.tags for each in grid.plan("quick") if each.repetition == n] for n in (0, 1)
    )
    assert second == first[::-1]
    assert [each.repetition for each in grid.plan("quick")] == [0] * 3 + [1] * 3


def test_a_later_field_stands_over_an_earlier_one(grid):
    run = next(each for each in grid.plan("quick", {"batch": 10}) if each.group == "many")
    assert run.table() == {
        "workload": {"name": "logistic-mnist", "subset": "tenth"},
        "cluster": {"name": "inline"},
        "strategy": {"name": "ps-async"},
        "num_workers": 2,
        "steps": 5,
        "batch": 10,
        "seed": 0,
    }


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("variant", ["quick", "full"])
def test_every_run_that_ships_with_us_can_be_asked_for(name, variant):
    grid = Grid.read(name)
    plans = grid.plan(variant)
    for plan in plans:
        RunSpec.from_table(plan.table())
    assert len({plan.name for plan in plans}) == len(plans)
    assert grid.says(variant)


def test_what_needs_nodes_is_not_carried_out_without(grid):
    text = TEXT.replace('group = "one"', 'group = "one"\nneeds = "emulated"')
    plans = Grid.parse("a-grid", text).plan("quick")
    problems = [each.problem for each in settle(plans) if each.spec is None]
    assert problems == ["it needs the cluster `emulated`, but `inline` was given"] * 2


@pytest.mark.parametrize("cluster", ["emulated", "local"])
def test_what_is_finished_is_found_on_whichever_cluster_it_was(cluster):
    text = TEXT.replace('cluster.name = "inline"', 'cluster.name = "emulated"')
    plan = Grid.parse("a-grid", text).plan("quick")[0]
    key = key_of(RunSpec.from_table(plan.table({"cluster.name": cluster})))
    (found,) = settle_by([plan], {key})
    assert found.key == key
    assert ("on `local`" in found.note) == (cluster == "local")


def test_names_that_are_no_studies_are_answered():
    with pytest.raises(SpecError, match="no study of that name"):
        load("nothing")


@pytest.mark.parametrize(
    ("name", "groups", "quick", "said"),
    [
        ("alexnet-scaling", ["real"], 1, "of real compute each with 3 seeds"),
        ("lenet-scaling", ["batch"], 1, "3 seeds where convergence is judged"),
        ("criteo-sparse", ["steps", "batch"], 1, "with 3 seeds at 50,000 steps and at each batch"),
        ("ps-vs-ring", ["stale"], 2, "with 3 seeds, on logistic-mnist"),
        ("ps-vs-ring", ["stale-rate"], 1, "(also by learning rate)"),
        ("ps-vs-ring", ["stale-resnet20"], 0, "and on resnet20-cifar10"),
    ],
)
def test_convergence_is_judged_by_the_seeds_that_a_full_study_says(name, groups, quick, said):
    grid = Grid.read(name)
    for variant, count in (("quick", quick), ("full", 3)):
        runs = Counter(
            (plan.group, *plan.tags.values()) for plan in grid.plan(variant) if plan.group in groups
        )
        assert set(runs.values()) == ({count} if count else set())
    assert said in grid.says("full")
