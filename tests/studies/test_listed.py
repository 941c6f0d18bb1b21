"""Every study shows what is listed for it, made from runs that were really carried out."""

import tomllib
from pathlib import Path

import pytest

from paceline.exhibits.values import Figure, Page, Table
from paceline.studies import STUDIES, load
from paceline.studies.base import page_of
from paceline.studies.executor import carry_out
from paceline.studies.folder import StudyDir
from paceline.studies.grid import Grid, PlannedRun
from paceline.studies.here import settle
from tests import vega_lite

LISTED = tomllib.loads((Path(__file__).parent / "listed.toml").read_text())
SMALL = {
    "cluster.name": "inline",
    "eval_samples": 100,
    "record.interval_s": 0.01,
    "record.monitor_s": 0.02,
    "worker_steps": 12,
}
SMALLER = {
    # Trained for long enough that a node's CPU can be told.
    "mnist-logistic": {"workload.subset": "tenth", "worker_steps": 300},
    "lenet-scaling": {"workload.subset": "tenth", "worker_steps": 3},
    "alexnet-scaling": {
        "workload.name": "synthetic",
        "workload.bytes": "40KB",
        "worker_steps": 300,
    },
    "criteo-sparse": {
        "workload.rows": 3000,
        "workload.num_features": 4000,
        "eval_every": 4,
        "record.profile": False,  # threads of one process cannot be profiled apart
    },
    "ps-vs-ring": {"workload.subset": "tenth"},
}
# What is of nodes with links of their own: there are none in a test that takes seconds.
NETWORK = {"network-sent", "network-received", "network-batch"}
NEEDS_NODES = dict.fromkeys(STUDIES, NETWORK) | {
    "alexnet-scaling": NETWORK | {"device-busy"},
    "criteo-sparse": NETWORK | {"operators", "profile"},
    "ps-vs-ring": {*LISTED["ps-vs-ring"]["tables"], *LISTED["ps-vs-ring"]["figures"]}
    - {"ring-by-hand"},
}


FEW_BATCHES = {"logistic-criteo": (1, 100), "lenet-mnist": (16, 32)}


def is_wanted(plan: PlannedRun) -> bool:
    """One seed, and of many batches and workers the few that claims compare."""
    few = FEW_BATCHES.get(plan.fields["workload.name"])
    if few is None or plan.repetition:
        return plan.repetition == 0
    is_few = plan.group != "workers" or plan.tags["num_workers"] <= 2
    return is_few and plan.tags.get("batch", few[0]) in few


# Many runs, or profiled ones: the others show already that what is listed is made.
SLOW = ("lenet-scaling", "criteo-sparse")
CARRIED_OUT = [
    pytest.param(name, marks=[pytest.mark.thorough, pytest.mark.timeout(600)])
    if name in SLOW
    else name
    for name in STUDIES
    if name != "faults"  # which kills processes: those of threads are the test's own
]


@pytest.fixture(scope="module", params=CARRIED_OUT)
def study(request, tmp_path_factory) -> tuple[str, Page]:
    name = request.param
    grid = Grid.read(name)
    plans = [each for each in grid.plan("quick", SMALL | SMALLER[name]) if is_wanted(each)]
    evidence = carry_out(settle(plans), StudyDir(tmp_path_factory.mktemp(name)))
    assert evidence.all_runs
    failed = [each for each in evidence.missing.values() if "needs the cluster" not in each]
    assert failed == []
    return name, page_of(load(name), grid, "quick", evidence)


def test_a_list_is_kept_for_every_study():
    assert list(LISTED) == list(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_what_is_listed_and_nothing_else(name):
    study = load(name)
    assert list(study.tables) == LISTED[name]["tables"]
    assert list(study.figures) == LISTED[name]["figures"]
    assert list(study.claims) == LISTED[name]["claims"]
    assert list(study.conditions) == LISTED[name]["contradictions"]
    assert list(Grid.read(name).claims) == LISTED[name]["claims"]


def test_everything_listed_is_made_and_can_be_drawn(study):
    name, page = study
    tables = {each.name for each in page.items if isinstance(each, Table)}
    figures = {each.name for each in page.items if isinstance(each, Figure)}
    assert set(LISTED[name]["tables"]) - tables - NEEDS_NODES[name] == set()
    assert set(LISTED[name]["figures"]) - figures - NEEDS_NODES[name] == set()
    for figure in page.figures:
        assert figure.spec()["title"]["text"] == figure.title
        vega_lite.check(figure.spec())
        assert len(figure.table.frame) > 0


def test_every_claim_is_judged_and_gives_its_reason(study):
    name, page = study
    assert [each.key for each in page.claims] == LISTED[name]["claims"]
    for claim in page.claims:
        assert claim.reason or claim.measured != "-", claim.key
        assert claim.said.endswith(".")


def test_published_values_stand_in_columns_of_their_own(study):
    _, page = study
    for table in page.tables:
        for column in table.columns:
            assert column.published == column.name.startswith(("said", "size", "top", "gflops"))
