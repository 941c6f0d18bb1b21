"""When all workers rest next, and for what."""

import itertools

import pytest

from paceline.engine.agenda import Agenda, Due
from paceline.parts import Every


def test_evaluations_stay_where_they_were_due_when_a_run_goes_on():
    """A worker may have gone further than the step at which an evaluation was due."""
    agenda = Agenda(evaluate_every=5)
    assert agenda.rest_at == 5
    assert agenda.arrive(7, 1.0) == Due(evaluation=True, checkpoint=False)
    assert agenda.rest_at == agenda.next_evaluation == 10
    again = Agenda(evaluate_every=5, progress=8, time_s=1.5, next_evaluation=10)
    assert again.rest_at == 10


def test_workers_rest_for_whichever_is_next():
    agenda = Agenda(evaluate_every=6, keep_every=Every(steps=4))
    seen = []
    while (at := agenda.rest_at) is not None and at <= 12:
        due = agenda.arrive(at, 0.1 * at)
        seen.append((at, due.evaluation, due.checkpoint))
    assert seen == [
        (4, False, True),
        (6, True, False),
        (8, False, True),
        (12, True, True),
    ]


def test_nobody_rests_where_nothing_is_asked_for():
    assert Agenda(evaluate_every=None).rest_at is None


@pytest.mark.parametrize("pace", [3.0, 40.0, 5000.0])
def test_seconds_are_planned_as_steps(pace):
    """However fast the steps are, checkpoints come about every 10 s, after few rests."""
    agenda = Agenda(evaluate_every=None, keep_every=Every(seconds=10.0))
    kept, num_rests = [0.0], 0
    while len(kept) < 5:
        at = agenda.rest_at
        num_rests += 1
        if agenda.arrive(at, at / pace).checkpoint:
            kept.append(at / pace)
    apart = [after - before for before, after in itertools.pairwise(kept)]
    assert all(9.0 <= each <= 11.0 for each in apart)
    assert num_rests < 20


def test_a_slower_pace_only_delays_a_checkpoint():
    agenda = Agenda(evaluate_every=None, keep_every=Every(seconds=10.0))
    time_s, progress, kept = 0.0, 0, []
    for _ in range(30):
        step_s = 0.1 if time_s < 25 else 0.5
        time_s += (agenda.rest_at - progress) * step_s
        progress = agenda.rest_at
        if agenda.arrive(progress, time_s).checkpoint:
            kept.append(time_s)
    apart = [after - before for before, after in itertools.pairwise(kept)]
    assert max(apart) < 60
    assert apart[-1] == pytest.approx(10.0, rel=0.2)
