"""Plans from device rates and links alone, beside speed-ups that others and our studies measured.

    python benchmarks/published.py

Nothing is run. Two tables are predicted, and the error of every row is printed:

- `published-scaling.csv`: TensorFlow's benchmarks of May 2017 (its page performance/benchmarks:
  synthetic data, EC2 p2.8xlarge with 8 K80s each, parameter servers beside the workers), and the
  efficiencies that Horovod publishes (horovod.readthedocs.io, benchmarks: 128 servers of 4 Pascal
  GPUs each, 25 Gbit/s). The page says what one machine makes, batch, servers and machines. It does
  not say the rate of the links: 10 Gbit/s is what EC2 states for that machine. What one Pascal GPU
  makes of InceptionV3 and VGG-16 is TensorFlow's P100 in that table, of ResNet-101 a sixteenth of
  the 1,656.82 images/s that Horovod shows for 16. Models' sizes are four bytes per parameter.
- `study-speed-ups.csv`: what the study `ps-vs-ring` measured, replaying a K80's rates over emulated
  links (log of 2026-11-18): report 004's experiment. The report itself prints its speed-ups
  as curves without numbers.

In TensorFlow's table the 8 GPUs of a machine add up their gradients first and exchange once: they
are entered as one worker that is as fast as the machine.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import paceline
from paceline.planning.plan import PlanRow

HERE = Path(__file__).parent
PUBLISHED, STUDY = HERE / "published-scaling.csv", HERE / "study-speed-ups.csv"
NO_COSTS = {"message_s": 0.0}


@dataclass(frozen=True)
class Compared:
    """A figure that was measured, and what a plan says."""

    table: str
    group: str
    case: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published() -> Iterator[Compared]:
    """Predict rows per second of other systems."""
    for row in rows_of(PUBLISHED):
        machines = int(row["machines"])
        servers: dict[str, Any] = {"servers": [int(row["servers"])]} if row["servers"] else {}
        found = paceline.plan(
            batch=int(row["batch"]),
            rows_per_s=float(row["rows_per_s"]),
            model_bytes=int(row["model_bytes"]),
            workers_per_node=int(row["workers_per_node"]),
            link=row["link"],
            strategies=[row["strategy"]],
            machines=[machines],
            **servers,
        )
        (best,) = (each for each in found.plan.rows if each.placement == "beside")
        case = f"{row['model']}, batch {row['batch']}, {machines} machines"
        measured = float(row["measured_per_s"])
        yield Compared(row["source"], row["strategy"], case, measured, best.samples_per_s)


def study(workload: str | None = None, only_link: str | None = None) -> Iterator[Compared]:
    """Predict speed-ups of the study's networks: its server has a machine of its own."""
    for row in rows_of(STUDY):
        workers, link = int(row["workers"]), row["link"]
        if workload not in {None, row["workload"]} or only_link not in {None, link}:
            continue
        found = planned(row["workload"], link, row["strategy"])
        predicted = next((each.speed_up for each in found if is_row(each, workers)), 1.0)
        case = f"{row['workload']}, {workers} workers, {link}"
        speed_up = float(row["speed_up"])
        yield Compared("ps-vs-ring", row["strategy"], case, speed_up, predicted)


def is_row(row: PlanRow, workers: int) -> bool:
    apart = row.servers == 1 and row.placement == "separate"
    return row.workers == workers and (apart or not row.servers)


@cache
def planned(workload: str, link: str, strategy: str) -> tuple[PlanRow, ...]:
    """Plan as many machines as the study had: a K80's rates and the link are all that is given."""
    fields: dict[str, Any] = {}
    if strategy != "ring":  # as the study's servers were then: nothing overlapped
        fields = {"servers": [1], "strategy": {"overlap": False}}
    made = paceline.plan(
        workload,
        device="replay:k80",
        batch=32,
        link=link,
        strategies=[strategy],
        machines=[2, 3, 4, 5, 6, 7],
        costs=NO_COSTS,
        **fields,
    )
    return made.plan.rows


def tell(found: list[Compared]) -> None:
    for each in found:
        print(
            f"{each.table:16} {each.group:9} {each.case:45} {each.measured:10,.5g} measured, "
            f"{each.predicted:10,.5g} predicted ({100 * each.error:+.1f} %)"
        )
    for table, group in sorted({(each.table, each.group) for each in found}):
        errors = [each.error for each in found if (each.table, each.group) == (table, group)]
        sizes = sorted(map(abs, errors))
        print(
            f"{table}, {group}: {len(sizes)} figures, median error {statistics.median(sizes):.1%} "
            f"(mostly {statistics.median(errors):+.1%}), worst {max(errors, key=abs):+.1%}"
        )


def main() -> int:
    tell([*published(), *study()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
