"""What a disturbance cost, and how it is told."""

from dataclasses import replace

import pytest

from paceline.engine.known import facts_of
from paceline.outcome.disturbed import Disturbance, goodput, sentence
from tests.engine.fakes import ORDER, SPEC


def restarted(struck_s: float, updated_s: float | None) -> Disturbance:
    return Disturbance(
        who="worker1",
        fault=f"kill:worker1@{struck_s:g}s",
        struck_s=struck_s,
        known_s=struck_s + 0.1,
        reason="killed",
        started_s=struck_s + 0.5,
        back_s=struck_s + 1.0,
        updated_s=updated_s,
        lost_step=120,
        from_step=100,
    )


def test_what_is_done_once_more_is_no_good_to_any_worker():
    facts = facts_of(SPEC, ORDER)
    assert goodput([restarted(2.0, 5.0)], facts, 10.0) == pytest.approx(0.7)
    # A second loss before the first is made up for: no second is lost twice.
    both = [restarted(2.0, 6.0), restarted(4.0, 7.0)]
    assert goodput(both, facts, 10.0) == pytest.approx(0.5)
    assert goodput([restarted(2.0, None)], facts, 10.0) == pytest.approx(0.2)


def test_updates_that_servers_lost_together_are_told_of_once():
    lost = Disturbance(who="server1", struck_s=2.0, known_s=2.0, reason="killed", updates_lost=9)
    along = replace(lost, who="server0", reason="it goes back with server1")
    assert sentence(lost).endswith("9 updates were lost")
    assert sentence(along) == (
        "at 2.0 s server0 was lost, known after 0.0 s (it goes back with server1)"
    )


def test_the_story_of_a_restart_in_order():
    assert sentence(restarted(2.0, 5.0)) == (
        "at 2.0 s kill:worker1@2s struck, known after 0.1 s (killed), "
        "all seats were started again from step 100, they trained after 1.0 s, "
        "20 steps were repeated, and the first new one came after 3.0 s"
    )
