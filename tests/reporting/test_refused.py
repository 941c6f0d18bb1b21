"""Steps that came to nothing are a cause of their own, told on the page and in the conclusion."""

from paceline.outcome.results import WorkerTotals
from paceline.reporting.conclusion import conclude
from paceline.reporting.level import groups_of
from paceline.reporting.sides import sides_of
from paceline.reporting.tables import comparison
from tests.made_runs import made


def worker(refused_because: dict[str, int]) -> WorkerTotals:
    refused = sum(refused_because.values())
    return WorkerTotals(
        name="worker0",
        worker_steps=400,
        samples=30_000,
        train_s=10.0,
        refused=refused,
        refused_because=refused_because,
    )


def sides(folder, refused: int):
    flaws = {"NaN": refused} if refused else {}
    single = made(
        folder,
        "single",
        num_workers=1,
        accuracy=0.4975,
        refused_steps=refused,
        workers=(worker(flaws),),
    )
    return sides_of([single, made(folder, "ring", accuracy=0.985)])


def test_no_other_cause_is_named_where_steps_were_refused(tmp_path):
    said = " ".join(conclude(sides(tmp_path, refused=100)))
    assert "single 100 of 400 worker steps (25.0 %)" in said
    assert "because gradients were not finite (NaN)" in said
    assert "learn less" not in said


def test_without_refusals_the_hint_on_fewer_updates_stays(tmp_path):
    said = " ".join(conclude(sides(tmp_path, refused=0)))
    assert "refused" not in said
    assert "those with fewer updates for the same rows learn less" in said


def test_the_page_has_them_as_a_column_only_where_there_are_some(tmp_path):
    with_some, without = (
        comparison(each, groups_of(each))
        for each in (sides(tmp_path / "a", 100), sides(tmp_path / "b", 0))
    )
    assert [column.label for column in with_some.columns if column.name == "refused"]
    assert with_some.frame["refused"].to_list() == [0.25, 0.0]
    assert not [column for column in without.columns if column.name == "refused"]
