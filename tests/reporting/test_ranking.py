"""Who is ranked: no conclusion goes beyond what the runs show."""

import re

import pytest

from paceline.outcome.results import NodeUsage, Verdict
from paceline.reporting.conclusion import conclude, rankings_of
from paceline.reporting.runs_page import page_of
from paceline.reporting.sides import sides_of
from tests.made_runs import made
from tests.reporting.test_conclusion import thrice

FULL = Verdict(
    kind="host-limited",
    where="host",
    sentence="host-limited: all cores are busy",
    evidence={"host": 0.99, "other_programs": 0.51, "starved": 0.4},
)
OWN = Verdict(kind="host-limited", where="host", sentence="host-limited", evidence={"starved": 0.4})
COMPUTES = Verdict(
    kind="compute", where="worker0", sentence="compute-bound", evidence={"compute": 0.96}
)


def told(*runs) -> tuple[list[dict], list[str]]:
    """The ranking and the sentences of a page of some runs."""
    page = page_of(runs)
    return list(page.ranking), list(page.conclusion)


def reasons(ranking: list[dict]) -> dict[str, str | None]:
    return {place["side"]: place["reason"] for place in ranking}


class TestNotRanked:
    def test_a_full_machine_names_no_winner(self, tmp_path):
        ranking, (first, *others) = told(
            *thrice(tmp_path, "single", 10, num_workers=1, verdict=FULL),
            *thrice(tmp_path, "ps-async", 4, verdict=FULL),
        )
        assert set(reasons(ranking).values()) == {"host-limited"}
        assert not any(place["ranked"] or place["fastest"] for place in ranking)
        assert first == (
            "No side can be called fastest to 90 % accuracy: this machine was fully "
            "loaded, and other "
            "programs used 51 % of its cores."
        )
        assert any("End the other programs, or use a quieter machine." in each for each in others)
        assert not any("times" in each for each in (first, *others))

    def test_one_that_its_own_workers_fill_is_told_what_would_fit(self, tmp_path):
        limited = {"verdict": OWN, "host_cores": 2}
        _, sentences = told(
            *thrice(tmp_path, "ring", 10, **limited), *thrice(tmp_path, "ps-sync", 20, **limited)
        )
        assert "fewer workers (this machine has 2 cores)" in sentences[1]
        assert "paceline calibrate logistic-mnist" in sentences[1]
        assert "--cluster emulated --device replay:logistic-mnist.rates.toml" in sentences[1]

    def test_a_replayed_one_is_slowed_down(self, tmp_path):
        replayed = {"compute": "replayed", "device": "replay:k80", "accuracy": None}
        late = {**replayed, "dilation": 2.0, "host_limited": True}
        _, sentences = told(*thrice(tmp_path, "ring", **late), *thrice(tmp_path, "ps-sync", **late))
        assert "(--dilation 4), or use fewer workers" in sentences[1]

    def test_others_are_ranked_and_the_sentence_says_of_whom_it_speaks(self, tmp_path):
        ranking, (first, second, *_) = told(
            *thrice(tmp_path, "ring", 5),
            *thrice(tmp_path, "ps-sync", 8),
            *thrice(tmp_path, "ps-async", 4, verdict=OWN),
        )
        assert reasons(ranking) == {"ring": None, "ps-sync": None, "ps-async": "host-limited"}
        assert [place["place"] for place in ranking] == [1, 2, None]
        assert first.startswith("Of the sides that can be ranked, ring is fastest")
        assert second.startswith("Not ranked: ps-async, because this machine was fully loaded")

    def test_one_disturbed_repetition_of_three_is_part_of_the_spread(self, tmp_path):
        disturbed = made(tmp_path, "ring", seconds=9, verdict=OWN)
        ranking, (first, *_) = told(
            *thrice(tmp_path, "ring", 5)[:2], disturbed, *thrice(tmp_path, "ps-sync", 8)
        )
        assert set(reasons(ranking).values()) == {None}
        assert "ring and ps-sync tie as fastest" in first

    def test_a_short_run_is_to_be_longer_by_the_option_that_was_given(self, tmp_path):
        ranking, sentences = told(*thrice(tmp_path, "ring", 0.5), *thrice(tmp_path, "ps-sync", 2.0))
        assert set(reasons(ranking).values()) == {"short"}
        assert "0.5 s of training is too short to judge (less than 3 s)" in sentences[0]
        assert sentences[1] == "Train longer (--epochs 28)."  # of 3 epochs

    def test_a_run_that_ends_at_its_target_is_to_have_another_target(self, tmp_path):
        reached = {"target": "accuracy>=0.8", "seconds_to_target": 0.5}
        _, sentences = told(
            *thrice(tmp_path, "ring", 0.5, **reached), *thrice(tmp_path, "ps-sync", 0.6, **reached)
        )
        assert sentences[1] == "Choose a target that takes longer to reach than 80 % accuracy."

    def test_seconds_of_this_machine_count_not_those_of_slowed_time(self, tmp_path):
        slowed = {"compute": "replayed", "device": "replay:k80", "accuracy": None, "dilation": 4.0}
        ranking, _ = told(
            *thrice(tmp_path, "ring", 1, **slowed), *thrice(tmp_path, "ps-sync", 2, **slowed)
        )
        assert set(reasons(ranking).values()) == {None}

    def test_more_than_the_workers_can_give_is_nobodys(self, tmp_path):
        ranking, sentences = told(
            *thrice(tmp_path, "single", 75.3, num_workers=1),
            *thrice(tmp_path, "ps-async", 10, num_workers=2),
        )
        assert reasons(ranking) == {"single": "doubtful", "ps-async": "impossible"}
        assert sentences[0].startswith("No side can be called fastest")
        assert not any("7.5" in each for each in sentences)

    def test_a_little_more_than_the_workers_can_give_is_told_without_digits(self, tmp_path):
        _, sentences = told(
            *thrice(tmp_path, "single", 20.1, num_workers=1),
            *thrice(tmp_path, "ring", 10, num_workers=2),
        )
        (gains,) = (each for each in sentences if each.startswith("Rows per second"))
        assert gains == "Rows per second against one worker: about 2 times for ring."

    def test_one_run_each_ranks_nothing_but_tells_what_was_measured(self, tmp_path):
        ranking, (first, second, *_) = told(
            made(tmp_path, "ring", seconds=5), made(tmp_path, "ps-sync", seconds=50)
        )
        assert set(reasons(ranking).values()) == {"one-run"}
        assert first == (
            "No side can be called fastest to 90 % accuracy: one run each, 5.00 s for ring and "
            "50.0 s for ps-sync."
        )
        assert second.endswith("Repeat each side (--repeat 3).")


class TestMore:
    @pytest.mark.parametrize(
        ("other_s", "verdict", "wanted"), [(8, None, False), (5.05, None, True), (8, OWN, False)]
    )
    def test_more_repetitions_are_wanted_where_they_could_tell_more(
        self, tmp_path, other_s, verdict, wanted
    ):
        other = thrice(tmp_path, "ps-sync", other_s, verdict=verdict)
        (ranking,) = rankings_of(sides_of([*thrice(tmp_path, "ring", 5), *other]))
        assert ranking.wants_more is wanted

    def test_of_one_run_each_more_are_wanted(self, tmp_path):
        (ranking,) = rankings_of(sides_of([made(tmp_path, "ring"), made(tmp_path, "ps-sync")]))
        assert ranking.wants_more

    def test_of_five_runs_one_that_was_disturbed_makes_no_tie(self, tmp_path):
        times_s = (5.0, 5.1, 5.2, 5.3, 9.0)
        runs = [made(tmp_path, "ring", seconds=each, num_rows=0) for each in times_s]
        others = [made(tmp_path, "ps-sync", seconds=3 + each, num_rows=0) for each in times_s]
        _, (first, *_, last) = told(*runs, *others)
        assert first.startswith("ring is fastest")
        assert "the lowest and the highest run left out" in last
        _, (first, *_) = told(*runs[1:], *others[1:])
        assert "tie as fastest" in first


class TestWhy:
    @pytest.mark.parametrize(
        ("verdict", "clause"),
        [
            (
                Verdict(
                    kind="link",
                    where="node2",
                    sentence="network-bound",
                    evidence={"exchange": 0.9, "link_full": 0.69},
                ),
                "ps-sync is slower because workers wait for server0's link (69 % full).",
            ),
            (
                Verdict(
                    kind="straggler",
                    where="worker1",
                    sentence="straggler",
                    evidence={"others_wait": 0.4},
                ),
                "ps-sync is slower because workers wait for worker1 (40 % of each step).",
            ),
            (
                Verdict(
                    kind="exchange", where=None, sentence="exchange", evidence={"exchange": 0.7}
                ),
                "ps-sync is slower because workers exchange for 70 % of each step.",
            ),
            (
                Verdict(
                    kind="compute", where="worker0", sentence="compute", evidence={"compute": 0.6}
                ),
                "ps-sync is slower because workers do not compute for 40 % of each step.",
            ),
            (
                Verdict(
                    kind="balanced",
                    where=None,
                    sentence="nothing takes most of a step",
                    evidence={"load": 0.1, "compute": 0.4, "exchange": 0.3, "wait": 0.2},
                ),
                "ps-sync is slower because workers exchange or wait for 50 % of each step.",
            ),
        ],
    )
    def test_the_slower_one_has_a_clause_from_its_verdict(self, tmp_path, verdict, clause):
        nodes = (NodeUsage(name="node2", seats=("server0",)),)
        sentences = conclude(
            sides_of(
                [
                    *thrice(tmp_path, "ring", 5),
                    *thrice(tmp_path, "ps-sync", 8, verdict=verdict, nodes=nodes),
                ]
            )
        )
        assert clause in sentences

    def test_a_small_part_of_a_step_is_no_cause(self, tmp_path):
        shares = {"load": 0.3, "compute": 0.45, "exchange": 0.15, "wait": 0.1}
        balanced = Verdict(kind="balanced", where=None, sentence="balanced", evidence=shares)
        slower = thrice(tmp_path, "ps-sync", 8, verdict=balanced)
        sentences = conclude(sides_of([*thrice(tmp_path, "ring", 5), *slower]))
        assert not any("because" in each for each in sentences)

    def test_who_moves_as_many_rows_but_learns_less_is_not_held_up(self, tmp_path):
        t = {"target": "accuracy>=0.85"}
        sentences = conclude(
            sides_of(
                [
                    *thrice(tmp_path, "ps-async", 5, global_steps=800, seconds_to_target=3, **t),
                    *thrice(tmp_path, "ring", 5, verdict=COMPUTES, seconds_to_target=4, **t),
                ]
            )
        )
        assert "ring is slower because it makes fewer updates from the same rows." in sentences, (
            sentences
        )


def test_the_page_says_in_its_headline_what_the_terminal_and_json_say(tmp_path):
    from paceline.reporting.html import html

    runs = [
        *thrice(tmp_path, "single", 10, num_workers=1, verdict=FULL),
        *thrice(tmp_path, "ring", 5, verdict=FULL),
    ]
    page = page_of(runs)
    (lead,) = re.findall(r'<p class="lead">(.*?)</p>', html(page, {}, ""))
    assert re.sub(r"<[^>]*>", "", lead) == page.conclusion[0]
    assert "No side can be called fastest" in lead
    assert [place["ranked"] for place in page.ranking] == [False, False]
