"""All workers of a comparison have the same number of threads, unless the user says otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from paceline.clusters.zygote import Zygote
from paceline.engine.threads import decide
from paceline.spec import RunSpec


def with_same_threads(
    specs: Sequence[RunSpec], zygote: Zygote | None = None
) -> tuple[list[RunSpec], list[str]]:
    """Give every spec its number of threads; returns also what a reader should know of it.

    Sides of one workload have as many as the side with the most workers can. Sides of different
    workloads are not compared, so each has its own number. On other machines it follows from the
    cores of each.
    """
    made, told = list(specs), []
    groups: dict[str, list[int]] = {}
    for index, spec in enumerate(specs):
        if spec.threads is None and not spec.cluster.is_elsewhere:
            groups.setdefault(repr((spec.workload, spec.device)), []).append(index)
    for numbers in groups.values():
        threads = decide([specs[index] for index in numbers], zygote)
        told.append(threads.sentence)
        for index in numbers:
            made[index] = dataclasses.replace(specs[index], threads=threads.number)
    given = sorted({spec.threads for spec in specs if spec.threads is not None})
    if given:
        counts = " or ".join(map(str, given))
        told.append(f"Each worker computes with {counts} thread{'s' * (given != [1])}, as given.")
    return made, list(dict.fromkeys(told))
