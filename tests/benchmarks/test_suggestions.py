"""The benchmark of suggestions follows what runs of its cases are given."""

import pytest
from suggestions import CASES, cases, spec_of

from paceline.arithmetic.exchange import chunk_bytes_of


@pytest.mark.parametrize("name", ["servers", "ring"])
def test_two_servers_and_a_ring_are_for_a_model_of_one_chunk(name):
    (case,) = (each for each in CASES if each.name == name)
    spec = spec_of(case.before)
    num_bytes = spec.workload.bytes
    # With several, a server beside every worker is suggested instead.
    assert num_bytes <= chunk_bytes_of(num_bytes, spec.num_workers, spec.strategy.chunk_bytes)


def test_every_case_can_be_run_before_and_after(tmp_path):
    for case in cases(tmp_path):
        assert spec_of(case.before) != spec_of({**case.before, **case.after})
