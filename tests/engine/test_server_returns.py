"""A server that is lost: all wait until it is started again, or the run ends and says why."""

import errno
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.comm import words
from paceline.comm.words import Restored
from paceline.engine.common_versions import CommonVersions
from paceline.engine.departures import EndRun, GoOn, GoOnPolicy, ReplacePolicy, StartAgain
from paceline.engine.server_returns import servers_return
from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from tests.engine.fakes import APART, Stage, begun
from tests.engine.test_departures import KILLED, loss

ASYNC = replace(APART, strategy=PsAsync(), on_failure="replace")


def spec_of(**fields: Any) -> RunSpec:
    usual = {"workload": "logistic-mnist", "strategy": "ps-async", "num_workers": 3}
    return RunSpec.from_table({**usual, **fields})


def apart(folder: Path, spec: RunSpec = ASYNC, **options: Any) -> Stage:
    return begun(folder, spec=spec, workers=3, servers=1, **options)


def play_until_back(stage: Stage) -> None:
    """The server is lost, is started again and serves."""
    stage.seats["server0"].leave(KILLED)
    stage.deliver()
    stage.deliver()
    server = stage.seats["server0"]
    for _ in range(2):
        server.act()
        stage.deliver()
    assert server.state == "serving"


def test_a_server_that_can_come_back_is_waited_for():
    given = loss("server", can_return=True)
    assert ReplacePolicy().decide(given) == StartAgain()
    assert GoOnPolicy().decide(given) == EndRun(KILLED)  # it is not started again
    assert GoOnPolicy().decide(replace(given, is_expected=True)) == GoOn()
    for policy in (GoOnPolicy(), ReplacePolicy()):
        failed = replace(given, how="failed", is_expected=True)
        assert policy.decide(failed) == EndRun(KILLED)  # it would fail again


def test_one_that_is_killed_on_purpose_comes_back_as_often_as_it_is():
    given = loss("server", can_return=True, num_before=50)
    assert ReplacePolicy().decide(replace(given, is_expected=True)) == StartAgain()
    assert isinstance(ReplacePolicy().decide(given), EndRun)


def test_a_server_is_back_and_the_run_finishes(tmp_path: Path):
    stage = apart(tmp_path)
    play_until_back(stage)
    newest = stage.told_to("worker0", words.Members)[-1].roster
    assert newest.by_name["server0"].incarnation == 1
    stage.seats["server0"].line.say(Restored(version=7, num_lost=3))
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
    (noted,) = stage.outcome.disturbances
    assert (noted.who, noted.updates_lost) == ("server0", 3)
    assert noted.back_s is not None
    assert stage.outcome.warnings == [
        f"the run waited for server0: {KILLED}",
        "server0 was started while the others trained",
        "server0 was started again from version 7: 3 updates were lost",
    ]


def test_who_rests_goes_on_since_the_others_are_further_from_the_gate_now(tmp_path: Path):
    stage = apart(tmp_path)
    stage.play_until(lambda: stage.seats["worker0"].state == "resting")
    play_until_back(stage)
    assert stage.seats["worker0"].state == "resting"
    stage.seats["server0"].line.say(Restored(version=0, num_lost=9))
    stage.deliver()
    assert stage.seats["worker0"].state == "training"
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_who_says_that_it_rests_in_the_same_moment_goes_on_too(tmp_path: Path):
    """It had not seen yet that the server was lost, and its word was heard after the server's."""
    stage = apart(tmp_path)
    play_until_back(stage)
    stage.seats["server0"].line.say(Restored(version=0, num_lost=9))
    stage.seats["worker0"].act()
    stage.deliver()
    assert stage.seats["worker0"].state == "training"
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_where_servers_go_back_together_the_others_are_ended_and_all_see_them_at_once(
    tmp_path: Path,
):
    struck: list[tuple[str, int]] = []
    spec = replace(ASYNC, strategy=PsSync(servers=2))
    stage = begun(
        tmp_path,
        spec=spec,
        workers=3,
        servers=2,
        strike=lambda w: struck.append((w.seat, w.number)),
    )
    stage.seats["server1"].leave(KILLED)
    stage.deliver()
    assert struck == [("server0", signal.SIGKILL)]
    assert stage.told_to("worker0", words.Members)[-1].roster.servers == ()
    stage.deliver()
    assert [stage.seats[each].incarnation for each in ("server0", "server1")] == [1, 1]
    for _ in range(2):
        stage.seats["server1"].act()
        stage.deliver()
    assert stage.told_to("worker0", words.Members)[-1].roster.servers == ()
    for _ in range(2):
        stage.seats["server0"].act()
        stage.deliver()
    rosters = [each.roster for each in stage.told_to("worker0", words.Members)]
    assert [each.num_servers for each in rosters][-3:] == [1, 0, 2]
    assert [rosters[-1].by_name[each].incarnation for each in rosters[-1].servers] == [1, 1]
    for each in ("server0", "server1"):
        assert stage.seats[each].state == "serving"
        stage.seats[each].line.say(Restored(version=7, num_lost=3))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    noted = {each.who: each.reason for each in stage.outcome.disturbances}
    assert noted == {"server1": KILLED, "server0": "it goes back with server1"}


def play_until_all_are_back(stage: Stage, lost: str) -> None:
    """One of two servers is lost, both are started again and serve."""
    stage.seats[lost].leave(KILLED)
    stage.deliver()
    stage.deliver()
    servers = [stage.seats[each] for each in ("server0", "server1")]
    for each in (*servers, *servers):
        each.act()
        stage.deliver()
    for each in servers:
        assert each.state == "serving"
        each.line.say(Restored(version=7, num_lost=3))
    stage.deliver()


def test_who_is_ended_along_with_another_has_not_died_by_itself(tmp_path: Path):
    spec = replace(ASYNC, strategy=PsSync(servers=2), max_restarts=1)
    stage = begun(tmp_path, spec=spec, workers=3, servers=2)
    for lost in ("server1", "server0"):
        play_until_all_are_back(stage, lost)
    assert [stage.seats[each].incarnation for each in ("server0", "server1")] == [2, 2]
    stage.seats["server1"].leave(KILLED)
    stage.play()
    stage.close()
    assert stage.outcome.reason == f"server1: {KILLED}, after it had been started again 1x"


def test_where_no_version_can_be_laid_out_the_run_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(_: CommonVersions) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CommonVersions, "agree", full)
    spec = replace(ASYNC, strategy=PsSync(servers=2))
    stage = begun(tmp_path, spec=spec, workers=3, servers=2)
    stage.seats["server1"].leave(KILLED)
    stage.play()
    stage.close()
    reason = "server1: its snapshot could not be laid out: [Errno 28] No space left on device"
    assert stage.outcome.reason == reason


def test_a_server_that_is_not_back_in_time_ends_the_run(tmp_path: Path):
    stage = apart(tmp_path)
    play_until_back(stage)
    stage.now.now_s += 61.0
    stage.play()
    stage.close()
    reason = "server0: it did not serve 61 s after it was started again"
    assert stage.outcome.reason == reason


def test_it_is_waited_for_no_longer_where_the_others_evaluate(tmp_path: Path):
    stage = apart(tmp_path)
    stage.play_until(lambda: isinstance(stage.seats["worker0"].errand, words.Evaluate))
    play_until_back(stage)
    stage.now.now_s += 61.0
    stage.deliver()
    stage.play()
    stage.close()
    assert "it did not serve 61 s" in (stage.outcome.reason or "")


def test_no_server_says_unasked_that_it_was_started_again(tmp_path: Path):
    stage = apart(tmp_path)
    stage.seats["server0"].line.say(Restored(version=7, num_lost=3))
    stage.play()
    stage.close()
    assert stage.outcome.reason == "server0: it said 'restored' out of turn"


def test_a_checkpoint_that_is_due_while_a_server_is_away_is_left_out(tmp_path: Path):
    stage = apart(tmp_path, replace(ASYNC, checkpoint_every=10))
    workers = [stage.seats[f"worker{index}"] for index in range(3)]
    stage.seats["server0"].leave(KILLED)
    stage.deliver()
    for each in workers:
        each.act()
    stage.deliver()
    assert "a checkpoint was due while a server was away, and was left out" in (
        stage.outcome.warnings
    )
    stage.close()


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ({"name": "ps-ssp", "servers": 2, "staleness": 1}, r"several .* strategy\.servers=1"),
        ({"name": "ps-async", "snapshot_s": 0}, r"without strategy\.snapshot_s"),
    ],
)
@pytest.mark.parametrize("fault", ["restart:server0@1s+1s", "random:mtbf=3s,restart=1s,who=all"])
def test_what_cannot_come_back_is_refused_before_the_start(strategy: Any, why: str, fault: str):
    with pytest.raises(SpecError, match=why):
        spec_of(strategy=strategy, fault=fault)
    spec_of(strategy=strategy, fault="kill:server0@1s")  # which ends the run


def test_servers_come_back_where_seats_may_be_started_again():
    assert servers_return(spec_of(on_failure="replace"))
    assert servers_return(spec_of(fault="restart:server0@1s+1s"))
    assert not servers_return(spec_of())
    assert not servers_return(spec_of(fault="kill:server0@1s"))
    assert not servers_return(spec_of(strategy="ring", on_failure="replace"))


def test_which_strategies_have_servers_that_come_back():
    assert PsAsync(servers=3).keeps_servers_away is None
    assert PsSsp(servers=3).keeps_servers_away is None
    assert PsSsp(staleness=2).keeps_servers_away is None
    assert PsSync(backup=1).keeps_servers_away is None
    assert PsSync(servers=2).keeps_servers_away is None
    assert PsSsp(servers=2, staleness=1).keeps_servers_away is not None
