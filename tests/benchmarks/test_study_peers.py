"""Peers of claims: what the benchmark writes is what the claims read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bounded import DidNotRun
from study_peers import Ours, _write_text, a_turn, measured

from paceline.studies.criteo_claims import s6, s7
from paceline.studies.evidence import PEERS, Evidence, Untestable, with_peers

EMPTY = Evidence(plans=[], runs={})


def turns(*seconds: tuple[float, float]):
    """What two programs took, one pair a turn."""
    left = iter(seconds)

    def turn():
        peer_s, ours_s = next(left)
        return {"peer": {"seconds": peer_s, "log_loss": 0.34, "setting": "so"}, "ours_s": ours_s}

    return turn


def evidence_of(tmp_path, found) -> Evidence:
    (tmp_path / PEERS).write_text(json.dumps({"scikit-mnist": found}))
    return with_peers(EMPTY, tmp_path)


def test_a_claim_is_judged_by_all_turns(tmp_path):
    found = measured(turns((1.0, 2.0), (1.8, 2.0), (1.0, 4.0)), "scikit-mnist", 3)
    judged = s6(evidence_of(tmp_path, found))
    assert judged.judgement == "holds"
    assert "0.50 times (0.25 to 0.90, n=3; so)" in judged.measured


def test_turns_that_go_both_ways_are_a_tie(tmp_path):
    found = measured(turns((1.0, 2.0), (3.0, 2.0), (1.0, 4.0)), "scikit-mnist", 3)
    judged = s6(evidence_of(tmp_path, found))
    assert judged.judgement == "does not hold here"
    assert "a tie" in judged.reason


@pytest.mark.parametrize("reached", [None, 0.5])
def test_a_peer_that_misses_the_log_loss_is_slower_than_it_was_waited_for(tmp_path, reached):
    peer = {"seconds": 1800.0, "log_loss": reached, "setting": "given up"}
    found = measured(lambda: a_turn(peer, Ours(2.0, 0.343)), "spark", 1)
    (tmp_path / PEERS).write_text(json.dumps({"spark-lbfgs": found, "spark-sgd": found}))
    judged = s7(with_peers(EMPTY, tmp_path))
    assert judged.judgement == "holds"
    told = "has not reached log loss 0.3430 within 1800.00 s, `single` has in 2.00 s: slower than"
    assert told in judged.measured
    assert "900.00 times" in judged.measured


def test_where_we_miss_it_the_peer_is_faster_than_we_tried(tmp_path):
    peer = {"seconds": 1.0, "log_loss": 0.2, "setting": "so"}
    found = measured(lambda: a_turn(peer, Ours(4.0, 0.2, missed=True)), "scikit-mnist", 1)
    judged = s6(evidence_of(tmp_path, found))
    assert judged.judgement == "holds"
    assert "`single` has not within 4.00 s: faster than 0.25 times" in judged.measured


def test_where_both_miss_it_nobody_is_timed():
    peer = {"seconds": 1.0, "log_loss": 0.5, "setting": "so"}
    with pytest.raises(DidNotRun, match=r"neither came to a log loss of 0\.3430"):
        a_turn(peer, Ours(4.0, 0.343, missed=True))


def test_who_was_given_up_too_early_is_not_judged_by_it(tmp_path):
    peer = {"seconds": 1.0, "log_loss": None, "setting": "given up"}
    found = measured(lambda: a_turn(peer, Ours(4.0, 0.3)), "scikit-mnist", 1)
    with pytest.raises(Untestable, match="stopped before it was clear"):
        s6(evidence_of(tmp_path, found))


def test_a_peer_that_does_not_run_is_a_reason(tmp_path):
    def fails():
        raise DidNotRun("no Java here")

    found = measured(fails, "scikit-mnist", 3)
    with pytest.raises(Untestable, match="no Java here"):
        s6(evidence_of(tmp_path, found))


def test_without_the_benchmark_the_claim_says_how_to_have_it(tmp_path):
    with pytest.raises(Untestable, match=r"benchmarks/study_peers\.py"):
        s6(with_peers(EMPTY, tmp_path))


def test_rows_become_text_with_every_feature_once(tmp_path):
    rows = np.zeros((2, 40), "<u4")
    rows[1, 0], rows[1, 1:] = 1, np.arange(39)
    rows.tofile(tmp_path / "rows.u4")
    _write_text(tmp_path / "rows.u4", tmp_path / "rows.svm")
    first, second = (tmp_path / "rows.svm").read_text().splitlines()
    assert first == "0 1:39"
    assert second.startswith("1 1:1 2:1 3:1 ")
    assert second.endswith(" 39:1")
