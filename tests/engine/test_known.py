"""What is known of a run before it starts."""

import pytest

from paceline.engine.known import facts_of
from paceline.spec import RunSpec
from paceline.workloads.order import Order


@pytest.mark.parametrize(
    ("strategy", "chunk_bytes"),
    [
        ({"name": "ps-sync"}, 1 << 20),
        ({"name": "ps-async", "chunk_bytes": 4096, "servers": "auto"}, 4096),
        ({"name": "ring"}, None),
    ],
)
def test_the_size_of_a_servers_chunks_is_known(strategy, chunk_bytes):
    table = {"workload": "synthetic", "num_workers": 2, "strategy": strategy, "worker_steps": 3}
    order = Order(num_rows=100, batch=10, num_workers=2, seed=0)
    assert facts_of(RunSpec.from_table(table), order).chunk_bytes == chunk_bytes
