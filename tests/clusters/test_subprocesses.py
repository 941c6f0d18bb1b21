"""A whole run on seats that share nothing with their driver but a line."""

import paceline
from paceline.clusters.inline import Inline
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing import Moons
from paceline.testing.strategies import assert_parameters_close
from tests.clusters.subprocesses import Subprocesses


def test_a_run_over_tcp_learns_the_same_and_its_records_come_home(tmp_path):
    def spec_on(cluster):
        return paceline.RunSpec(
            workload=Moons(), strategy=PsSync(), cluster=cluster, num_workers=2, worker_steps=20
        )

    here = paceline.run(spec_on(Inline()), out=tmp_path)
    there = paceline.run(spec_on(Subprocesses()), out=tmp_path)
    assert_parameters_close(there, here, tolerance=0.0)
    assert [each.worker_steps for each in there.workers] == [20, 20]
    assert there.warnings == ()
    run = paceline.load(there.run)
    assert set(run.rows()["seat"]) == {"worker0", "worker1"}
    assert set(run.nodes()["node"]) == {"node0"}
