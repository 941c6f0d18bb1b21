"""What a departure means: what policies decide, and how the conductor carries that out."""

import signal
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from paceline import Record
from paceline.comm import words
from paceline.comm.roster import Seat
from paceline.engine.departures import (
    AbortPolicy,
    DeparturePolicy,
    EndRun,
    GoOn,
    GoOnPolicy,
    KeepThenEnd,
    Loss,
    ReplacePolicy,
    RestartPolicy,
    StartAgain,
    StartAllAgain,
)
from paceline.faults import Fault
from tests.engine.fakes import APART, SPEC, Stage, begun, totals

KILLED = "killed by signal 9 (SIGKILL)"


def loss(role: Any = "worker", **fields: Any) -> Loss:
    usual = Loss(
        seat=Seat(role, 1, "node0"),
        reason=KILLED,
        how="departed",
        num_before=0,
        has_trained=False,
        num_workers_left=2,
        survives=True,
    )
    return replace(usual, **fields)


def test_unless_asked_otherwise_every_loss_ends_the_run():
    for role, how, trained, survives in product(
        ("worker", "server", "monitor"),
        ("departed", "failed", "lost"),
        (True, False),
        (True, False),
    ):
        given = loss(role, how=how, has_trained=trained, survives=survives)
        assert AbortPolicy().decide(given) == EndRun(KILLED)


BOTH = (GoOnPolicy(), ReplacePolicy())


@pytest.mark.parametrize("policy", BOTH, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("given", "decision"),
    [
        (loss("server"), EndRun(KILLED)),  # what it held is held by nobody else
        (loss(survives=False), EndRun(KILLED)),  # the others cannot go on without it
        (loss(how="failed"), EndRun(KILLED)),  # it would fail again
        (loss("monitor"), GoOn()),
        (loss("monitor", how="failed"), EndRun(KILLED)),
        (loss(has_trained=True), GoOn()),
        (loss(has_trained=True, survives=False), GoOn()),
        (loss(has_trained=True, num_workers_left=0), EndRun(KILLED)),  # nobody could evaluate
    ],
    ids=str,
)
def test_what_the_others_cannot_do_without_ends_the_run(policy, given, decision):
    assert policy.decide(given) == decision


def test_going_on_needs_a_worker_that_is_left():
    assert GoOnPolicy().decide(loss()) == GoOn()
    assert GoOnPolicy().decide(loss(num_workers_left=0)) == EndRun(KILLED)


def test_the_last_worker_may_be_away_where_it_comes_back_and_servers_have_the_parameters():
    last = loss(num_workers_left=0, is_expected=True, has_servers=True)
    assert GoOnPolicy().decide(last) == GoOn()
    assert GoOnPolicy().decide(replace(last, is_expected=False)) == EndRun(KILLED)
    assert GoOnPolicy().decide(replace(last, has_servers=False)) == EndRun(KILLED)
    assert GoOnPolicy().decide(replace(last, how="failed")) == EndRun(KILLED)
    assert isinstance(GoOnPolicy(2).decide(last), EndRun)


@pytest.mark.parametrize("policy", [GoOnPolicy(3), ReplacePolicy(3, 3)], ids=["go on", "replace"])
def test_too_few_workers_are_kept_before_the_run_ends(policy: DeparturePolicy):
    left = f"{KILLED}; 2 of at least 3 workers are left (min_workers)"
    assert policy.decide(loss()) == KeepThenEnd(left)
    assert isinstance(policy.decide(loss(num_workers_left=0)), EndRun)
    assert policy.decide(loss(how="failed")) == EndRun(KILLED)


def test_a_worker_is_started_again_a_few_times():
    policy = ReplacePolicy(most_restarts=2)
    assert policy.decide(loss(num_workers_left=0)) == StartAgain()
    assert policy.decide(loss(num_before=1)) == StartAgain()
    assert policy.decide(loss(num_before=2)) == EndRun(
        f"{KILLED}, after it had been started again 2x"
    )


@pytest.mark.parametrize(
    ("given", "decision"),
    [
        (loss(), StartAllAgain(KILLED)),
        (loss(survives=False), StartAllAgain(KILLED)),
        (loss("server"), StartAllAgain(KILLED)),
        (loss(how="lost"), StartAllAgain(KILLED)),
        (loss(how="failed"), EndRun(KILLED)),  # it would fail again
        (loss("monitor"), GoOn()),
        (loss(has_trained=True), GoOn()),
        (loss(has_begun=False), EndRun(KILLED)),  # what cannot begin would not the next time
    ],
    ids=str,
)
def test_a_lost_seat_starts_all_again_and_an_error_does_not(given: Loss, decision: object):
    assert RestartPolicy().decide(given) == decision


def test_all_are_started_again_a_few_times_and_also_when_struck_while_they_start():
    policy = RestartPolicy(most_restarts=2, num_restarts=1)
    assert policy.decide(loss(has_begun=False)) == StartAllAgain(KILLED)
    assert policy.decide(loss("monitor", has_begun=False)) == StartAllAgain(KILLED)
    assert RestartPolicy(most_restarts=2, num_restarts=2).decide(loss()) == EndRun(
        f"{KILLED}, after the run had been started again 2x, the most allowed (max_restarts)"
    )


def apart(folder: Path, policy: DeparturePolicy, **options: Any) -> Stage:
    """Three workers that train apart, a server and a monitor."""
    usual = {"workers": 3, "servers": 1, "monitors": 1, "spec": APART}
    return begun(folder, policy=policy, **{**usual, **options})


def test_without_a_worker_the_others_hear_the_new_roster_and_the_run_finishes(tmp_path: Path):
    stage = apart(tmp_path, GoOnPolicy())
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
    assert stage.outcome.warnings == [f"the run went on without worker1: {KILLED}"]
    assert stage.outcome.totals.keys() == {"worker0", "worker2"}
    for name in ("worker0", "worker2", "server0", "monitor0"):
        before, after = stage.told_to(name, words.Members)
        assert after.roster.workers == ("worker0", "worker2")
        assert after.roster.epoch > before.roster.epoch


@pytest.mark.parametrize("name", ["worker0", "worker2", "monitor0"])
def test_at_any_moment_of_training_the_run_goes_on_without(name: str, tmp_path: Path):
    num_moments = 0
    while True:
        stage = apart(tmp_path, GoOnPolicy(), workers=2 if name == "worker0" else 3)
        for _ in range(num_moments):
            stage.acting()[num_moments % 2 - 1].act()
            stage.deliver()
        if not stage.seats[name].is_here:
            break
        stage.seats[name].leave(KILLED)
        stage.play()
        assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
        assert stage.outcome.evaluations[-1]["progress"] == 20
        num_moments += 1
        stage.close()
    stage.close()
    assert num_moments > 15


def test_the_next_worker_evaluates_where_the_first_is_gone_in_the_middle_of_it(tmp_path: Path):
    stage = apart(tmp_path, GoOnPolicy())
    first, second = stage.seats["worker0"], stage.seats["worker1"]
    stage.play_until(lambda: isinstance(first.errand, words.Evaluate))
    first.leave(KILLED)
    stage.deliver()
    assert second.errand == words.Settle(is_looked_at=True)
    stage.play_until(lambda: isinstance(second.errand, words.Evaluate))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert len(stage.outcome.evaluations) == 2
    assert stage.told_to("worker1", words.Save)


def test_before_training_every_loss_ends_the_run_whatever_the_policy(tmp_path: Path):
    for policy in BOTH:
        stage = Stage(tmp_path, workers=3, policy=policy, spec=APART)
        stage.seats["worker1"].leave(KILLED)
        stage.play()
        stage.close()
        assert stage.outcome.reason == f"worker1: {KILLED}"


def test_a_strategy_in_step_ends_whatever_the_policy(tmp_path: Path):
    assert SPEC.strategy.in_step
    stage = apart(tmp_path, GoOnPolicy(), spec=SPEC)
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    assert stage.outcome.reason == f"worker1: {KILLED}"


def test_a_worker_that_is_started_again_joins_and_trains_to_the_end(tmp_path: Path):
    stage = apart(tmp_path, ReplacePolicy())
    before = stage.seats["worker1"]
    before.leave(KILLED)
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
    assert stage.outcome.warnings == [
        f"the run went on without worker1: {KILLED}",
        "worker1 was started while the others trained",
    ]
    assert stage.outcome.totals.keys() == {"worker0", "worker1", "worker2"}
    newest = stage.told_to("worker0", words.Members)[-1].roster
    assert newest.by_name["worker1"].incarnation == 1
    assert newest.addresses["worker1"] == "a1"
    assert stage.seats["worker1"].roster == newest


@pytest.mark.parametrize("name", ["worker0", "worker2"])
def test_at_any_moment_of_training_a_worker_can_be_started_again(name: str, tmp_path: Path):
    num_moments, num_restarts = 0, 0
    while True:
        stage = apart(tmp_path, ReplacePolicy(), workers=1 if name == "worker0" else 3)
        for _ in range(num_moments):
            stage.acting()[num_moments % 2 - 1].act()
            stage.deliver()
        if not stage.seats[name].is_here:
            break
        has_trained = stage.seats[name].state == "attending"
        stage.seats[name].leave(KILLED)
        stage.play()
        if has_trained and len(stage.workers) == 1:
            assert stage.outcome.status == "failed"  # nobody has what it had learnt
        else:
            assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
        num_restarts += stage.seats[name].incarnation
        num_moments += 1
        stage.close()
    stage.close()
    assert num_moments > num_restarts > 3


def test_who_starts_again_while_the_others_rest_begins_when_they_go_on(tmp_path: Path):
    stage = apart(tmp_path, ReplacePolicy())
    stage.now.now_s += 2.0  # of training
    stage.play_until(lambda: isinstance(stage.seats["worker0"].errand, words.Evaluate))
    stage.seats["worker2"].leave(KILLED)
    stage.deliver()
    stage.deliver()
    again = stage.seats["worker2"]
    for _ in range(2):
        again.act()
        stage.deliver()
    assert again.state == "joined"
    stage.now.now_s += 7.0  # the evaluation takes long
    stage.seats["worker0"].act()
    stage.deliver()
    assert again.state == "training"
    (resumed,) = stage.told_to("worker0", words.Resume)
    first, late = (stage.told_to(name, words.Start)[-1] for name in ("worker0", "worker2"))
    assert late.start_s - first.start_s == pytest.approx(resumed.paused_s)
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_words_and_the_end_of_an_earlier_incarnation_mean_nothing(tmp_path: Path):
    stage = apart(tmp_path, ReplacePolicy())
    before = stage.seats["worker1"]
    before.leave(KILLED)
    stage.deliver()
    before.line.say(words.Trained(totals()), words.Failed("too late"))
    before.leave("exit code 1")
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert stage.outcome.totals["worker1"].worker_steps == stage.seats["worker1"].done
    assert len(stage.outcome.warnings) == 2


def test_one_that_ends_again_and_again_ends_the_run(tmp_path: Path):
    stage = apart(tmp_path, ReplacePolicy(most_restarts=2))
    for _ in range(3):
        stage.seats["worker1"].leave(KILLED)
        stage.deliver()
        stage.deliver()
    stage.play()
    stage.close()
    assert stage.outcome.reason == f"worker1: {KILLED}, after it had been started again 2x"


def test_a_cluster_that_cannot_start_a_seat_again_ends_the_run_and_says_so(tmp_path: Path):
    stage = apart(tmp_path, ReplacePolicy(), can_restart=False)
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    expected = "worker1: it is gone, and its cluster cannot start it again"
    assert stage.outcome.reason == expected


def test_an_evaluation_that_takes_long_is_no_failure_to_go_on(tmp_path: Path):
    stage = apart(tmp_path, GoOnPolicy())
    stage.play_until(lambda: isinstance(stage.seats["worker0"].errand, words.Evaluate))
    stage.seats["worker2"].leave(KILLED)
    stage.deliver()
    stage.now.now_s += 200.0
    stage.deliver()
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)


def test_no_update_after_a_loss_ends_the_run_in_time(tmp_path: Path):
    stage = apart(tmp_path, GoOnPolicy())
    stage.seats["worker2"].leave(KILLED)
    stage.deliver()
    stage.now.now_s += 59.0
    stage.deliver()
    assert stage.outcome.reason == "it did not finish"
    stage.now.now_s += 2.0
    stage.deliver()
    stage.play()
    stage.close()
    assert stage.outcome.reason == "worker2: no update was made for 61 s after it was lost"


def test_rows_that_are_far_apart_are_waited_for(tmp_path: Path):
    spec = replace(APART, record=Record(interval_s=100.0))
    stage = apart(tmp_path, GoOnPolicy(), spec=spec)
    stage.seats["worker2"].leave(KILLED)
    stage.deliver()
    stage.now.now_s += 150.0
    stage.deliver()
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_who_was_stopped_and_went_on_is_not_started_again_when_it_is_killed_later(tmp_path: Path):
    spec = replace(APART, fault=(Fault.parse("stop:worker1@1s+2s"),))
    stage = apart(tmp_path, GoOnPolicy(), spec=spec)
    for seconds in (2.0, 3.0, 20.0):
        stage.now.now_s += seconds
        stage.deliver()
    stage.seats["worker1"].leave(KILLED)
    stage.deliver()
    stage.play()
    stage.close()
    assert stage.seats["worker1"].incarnation == 0
    assert f"the run went on without worker1: {KILLED}" in stage.outcome.warnings


def test_a_run_that_is_over_before_a_fault_tells_of_it(tmp_path: Path):
    spec = replace(APART, fault=(Fault.parse("kill:worker1@900s"),))
    stage = apart(tmp_path, GoOnPolicy(), spec=spec)
    stage.play()
    stage.close()
    told = "the fault kill:worker1@900s never struck: the run was over before"
    assert (stage.outcome.status, stage.outcome.warnings) == ("finished", [told])


def test_a_fault_ends_also_while_the_others_rest(tmp_path: Path):
    spec = replace(APART, fault=(Fault.parse("stop:worker1@0s+2s"),))
    struck: list[words.Word] = []
    stage = Stage(tmp_path, workers=3, policy=GoOnPolicy(), spec=spec, strike=struck.append)
    stage.play_until(lambda: isinstance(stage.seats["worker0"].errand, words.Evaluate))
    stage.now.now_s += 3.0
    stage.deliver()
    stage.close()
    assert [each.number for each in struck] == [signal.SIGSTOP, signal.SIGCONT]


def test_the_reason_names_the_node_where_there_are_several(tmp_path: Path):
    stage = begun(tmp_path)
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    assert stage.outcome.reason == f"worker1: {KILLED}"
    stage.close()
    stage = begun(tmp_path, nodes=2)
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    assert stage.outcome.reason == f"worker1: {KILLED}, on node1"
