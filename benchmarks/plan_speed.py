"""How long a plan takes once its step is known, and how much memory.

python benchmarks/plan_speed.py

Five strategies over ten numbers of machines, and 10,000 machines, of a network that is replayed.
Seconds are wall-clock; beside them the processor's, which a busy machine does not change.
"""

from __future__ import annotations

import resource
import sys
import time

from paceline.arithmetic.costs import Costs
from paceline.planning.asking import asked, basis_of
from paceline.planning.plan import make_plan

FIVE = ["ring", "ddp", "ps-sync", "ps-async", "ps-ssp"]
COUNTS = [1, 2, 4, 8, 12, 16, 32, 64, 128, 256]
COSTS = Costs(message_s=1e-5, copy_s_per_byte=1e-10, add_s_per_byte=1e-10, apply_s_per_byte=1e-10)
WANTED = ((COUNTS, 3.0), ([10_000], 10.0))
WANTED_MB = 500


def main() -> int:
    table = {"workload": "resnet50-cifar10", "device": "replay:k80", "batch": 32, "link": "10gbit"}
    all_met = True
    for counts, wanted_s in WANTED:
        fields = {"machines": counts, "strategies": FIVE, "strategy": {"staleness": 2}}
        asked_for = asked({**table, **fields})
        basis = basis_of(asked_for, None, COSTS)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        plan = make_plan(asked_for.scenario, basis)
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        all_met &= cpu_s <= wanted_s
        print(
            f"{len(FIVE)} strategies on {len(counts)} numbers of machines up to {max(counts):,}, "
            f"{len(plan.rows)} candidates: {took_s:.2f} s, {cpu_s:.2f} of the processor; wanted "
            f"{wanted_s:g}: {'met' if cpu_s <= wanted_s else 'MISSED'}"
        )
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"peak memory {peak_mb:.0f} MB; wanted {WANTED_MB}")
    return 0 if all_met and peak_mb <= WANTED_MB else 1


if __name__ == "__main__":
    sys.exit(main())
