"""How parameter servers cut a model: plans cut as runs do."""

import pytest

from paceline.arithmetic.chunks import dealt_plans
from paceline.arithmetic.exchange import chunk_bytes_of
from paceline.strategies.parameter_server.cuts import dealt
from tests.arithmetic.steps import STEP


@pytest.mark.parametrize(
    ("num_bytes", "num_servers", "most", "expected"),
    [
        (102_000_000, 1, 1 << 20, 1 << 20),
        (4_000_000, 1, 1 << 20, 500_000),
        (4_000_000, 3, 1 << 20, 1 << 18),
        (31_400, 1, 1 << 20, 1 << 18),  # one chunk
        (4_000_000, 1, 1000, 1000),
    ],
)
def test_a_small_model_is_cut_into_smaller_chunks(num_bytes, num_servers, most, expected):
    assert chunk_bytes_of(num_bytes, num_servers, most) == expected


def test_plans_cut_as_runs_do():
    num_values, num_servers = STEP.num_bytes // 4, 3
    size = chunk_bytes_of(STEP.num_bytes, num_servers, 8 << 20)
    cut = dealt(num_values, num_servers, size // 4)
    plans = dealt_plans(STEP, num_servers, size, 1000)
    assert len(plans) == sum(map(len, cut)) == 24
    assert {round(each.num_bytes, -3) for each in plans} == {
        round(4 * each.num_values, -3) for chunks in cut for each in chunks
    }
