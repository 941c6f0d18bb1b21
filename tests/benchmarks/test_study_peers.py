"""Peers of claims: what the benchmark writes is what the claims read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bounded import DidNotRun
from study_peers import _write_text, measured

from paceline.studies.criteo_claims import s6
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


def test_a_claim_is_judged_by_the_median_of_turns(tmp_path):
    found = measured(turns((1.0, 2.0), (3.0, 2.0), (1.0, 4.0)), "scikit-mnist", 3)
    judged = s6(evidence_of(tmp_path, found))
    assert judged.judgement == "holds"
    assert "0.50 times (0.25 to 1.50, n=3; so)" in judged.measured


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
