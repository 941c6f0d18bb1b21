"""How often sides are run: until the spread is known, within a budget that is told before."""

import pytest

from paceline.comparing import Contest, ContestStanding, Repeats, carry_out, sides

TABLE = {
    "workload": {"name": "logistic-mnist", "subset": "tenth"},
    "cluster": "inline",
    # Two steps: of so few there is no verdict, however busy the machine is.
    "samples": 150,
    "record": {"monitor": False, "tensorboard": False, "model": False},
}


@pytest.fixture
def specs():
    return sides(TABLE, ["single", "solo"])


def strategies(contest: Contest) -> list[str]:
    return [result.strategy for _, result in contest.results]


class TestRepeats:
    def test_short_runs_are_made_three_times_in_turns(self, specs, tmp_path):
        seen: list[ContestStanding] = []
        contest = Contest(out=tmp_path, watch=seen.append)
        done = carry_out(contest, specs)
        # Of runs this short no number of repetitions would tell more.
        assert strategies(contest) == ["single", "solo", "solo", "single", "single", "solo"]
        assert {place["reason"] for place in done.page.ranking} == {"short"}
        assert {place["measure"]["runs"] for place in done.page.ranking} == {3}
        assert {standing.total for standing in seen} == {6}
        assert all(standing.may_grow for standing in seen)
        assert sorted({standing.done for standing in seen}) == [*range(6)]

    def test_no_round_is_begun_that_would_end_after_the_budget(self, specs, tmp_path):
        contest = Contest(out=tmp_path)
        done = carry_out(contest, specs, Repeats(budget_s=0))
        assert strategies(contest) == ["single", "solo"]
        assert "short" in {place["reason"] for place in done.page.ranking}

    def test_a_given_number_is_exact(self, specs, tmp_path):
        contest = Contest(out=tmp_path)
        carry_out(contest, specs, Repeats(number=2))
        assert strategies(contest) == ["single", "solo", "solo", "single"]

    def test_a_contest_whose_every_side_fails_ends(self, specs, tmp_path):
        file = tmp_path / "a file"
        file.touch()
        contest = Contest(out=file / "runs")
        contest.run_until_known(specs, budget_s=60)
        assert [spec for spec, _ in contest.failures] == specs
        assert contest.results == []

    def test_what_is_to_come_is_told_in_advance(self):
        assert Repeats(number=2).sentence(4) == "8 runs: 4 sides, 2 each."
        said = Repeats(budget_s=90).sentence(4)
        assert "4 sides, in turns, until the spread is known: 3 to 5 runs each" in said
        assert "no new round if it would end after 90 s (--budget)" in said
