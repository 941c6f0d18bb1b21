"""Runs with kills: when they are stopped, what others lost at a death, what a ledger may say."""

import signal
from dataclasses import replace

import kills
import ledger
import pytest
from kills import Figures, StopAfter, lost_by_others

from paceline.engine.progress import RunView
from paceline.outcome.disturbed import Disturbance

FIGURES = Figures(
    num_kills=0,
    updates=90,
    train_s=9.0,
    accuracy=0.9,
    goodput=None,
    detection_s=[],
    update_s=[],
    strength_s=[],
    others_s=[],
    pushes={"worker0": 50, "worker1": 50},
    most_per_row=4,
    applied={"server0": 90},
    lost={"server0": 10},
    losses={"server0": 1},
    problems=[],
)


def rows(*moments: float) -> list[float]:
    """A row each tenth of a second, but for some moments."""
    return [each / 10 for each in range(100) if each / 10 not in moments]


def test_a_run_is_stopped_once_and_not_before_its_last_victim_may_be_back(monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", asked.append)
    stop, view = StopAfter(2), RunView.starting("")
    for time_s, num_faults in ((1.0, 1), (20.0, 1), (21.0, 2), (25.0, 2)):
        stop(replace(view, time_s=time_s, num_faults=num_faults))
    assert not stop.is_asked
    for time_s in (26.0, 26.1):
        stop(replace(view, time_s=time_s, num_faults=2))
    assert asked == [signal.SIGINT]


def test_what_others_lost_at_a_death_is_their_longest_row_around_it():
    death = Disturbance(who="worker0", struck_s=5.05, known_s=5.1, back_s=6.0)
    times = {"worker0": rows(), "worker1": rows(5.1, 5.2, 5.3), "worker2": rows(2.0, 2.1)}
    assert lost_by_others(times, [death]) == [pytest.approx(0.3)]


def test_a_row_that_is_longer_than_what_is_looked_at_counts_too():
    death = Disturbance(who="worker0", struck_s=5.05, known_s=5.1, back_s=6.0)
    long = rows(*(each / 10 for each in range(51, 71)))
    assert lost_by_others({"worker1": long}, [death]) == [pytest.approx(2.0)]


def test_while_it_was_away_itself_another_lost_nothing_at_a_death():
    death = Disturbance(who="worker0", struck_s=5.05, known_s=5.1, back_s=6.0)
    earlier = Disturbance(who="worker1", struck_s=3.05, known_s=3.1, back_s=5.35)
    away = rows(*(each / 10 for each in range(31, 54)))
    assert lost_by_others({"worker1": away}, [earlier, death]) == [0.0, pytest.approx(0.0)]


def test_a_ledger_adds_up_where_each_push_was_applied_or_lost():
    assert ledger.problems("a run", FIGURES, in_step=False) == []
    again = replace(FIGURES, applied={"server0": 91})  # its answer was under way
    assert ledger.problems("a run", again, in_step=False) == []
    for wrong in (89, 92):
        figures = replace(FIGURES, applied={"server0": wrong})
        (problem,) = ledger.problems("a run", figures, in_step=False)
        assert problem == "a run: the ledger of server0 does not add up"


def test_of_killed_workers_no_more_than_their_last_row_is_unknown():
    figures = replace(FIGURES, losses={"worker0": 2}, lost={})
    for applied, is_right in ((99, False), (100, True), (110, True), (111, False)):
        found = ledger.problems("", replace(figures, applied={"server0": applied}), in_step=False)
        assert (not found) == is_right


def test_in_step_each_worker_pushes_for_every_update():
    figures = replace(FIGURES, applied={"server0": 40})
    assert ledger.problems("", figures, in_step=True) == []
    one_in_vain = replace(FIGURES, applied={"server0": 39})
    assert ledger.problems("", one_in_vain, in_step=True) == []
    for wrong in (38, 41):
        figures = replace(FIGURES, applied={"server0": wrong})
        assert ledger.problems("", figures, in_step=True)


def test_accuracy_is_compared_within_a_point():
    assert kills.compare("a run", replace(FIGURES, accuracy=0.895), FIGURES) == []
    (problem,) = kills.compare("a run", replace(FIGURES, accuracy=0.88), FIGURES)
    assert problem == "a run: 2.00 points below undisturbed"
    (problem,) = kills.compare("a run", FIGURES, replace(FIGURES, accuracy=0.4))
    assert "does not learn" in problem
