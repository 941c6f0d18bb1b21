"""Evidence of `ps-vs-ring` whose rates are known."""

from dataclasses import replace

import pytest

from paceline.outcome.buckets import BucketTotals
from paceline.studies.evidence import Evidence
from paceline.studies.grid import PlannedRun
from tests.made_runs import made, stale

RESNET = "resnet50-cifar10"
MIB = 2**20
MODEL_BYTES = 98 * MIB
ALONE_PER_S = 50.0
LINK = "[cluster]\nname = 'emulated'\nlink = {}e9\n"


@pytest.fixture
def evidence_of(tmp_path):
    """Make evidence of (group, strategy, workers, rows per second, models that a worker sends).

    In the group `links` Gbit stand in the place of the strategy, which is ring.
    """

    def make(*runs: tuple[str, str, int, float, float]) -> Evidence:
        plans, found = [], {}
        for group, strategy, count, per_s, models in runs:
            name = f"{group}-{strategy}-{count}"
            tags = {"workload": RESNET, "strategy": strategy, "num_workers": count}
            gbit = strategy if group == "links" else "2"
            plans.append(PlannedRun(name=name, group=group, tags=tags, repetition=0, fields={}))
            # So that each worker makes ten steps of 32 rows.
            rows = 32 * 10 * count
            run = made(
                tmp_path,
                "ring" if group == "links" else strategy,
                num_workers=count,
                batch=32,
                rows=rows,
                seconds=rows / per_s,
                workload=RESNET,
                more=LINK.format(gbit),
                **(stale() if group == "ps" else {}),
            )
            bucket = BucketTotals(num_bytes=MODEL_BYTES, start_s=0.0, run_s=1.0, wait_s=0.5)
            sent = round(10 * models * MODEL_BYTES)
            workers = [replace(w, sent_bytes=sent, buckets=(bucket,)) for w in run.result.workers]
            result = replace(run.result, workers=tuple(workers))
            found[name] = replace(run, result=result)
        return Evidence(plans=plans, runs=found)

    return make
