"""What to do where a side cannot be ranked, chosen for the cause and given as options to type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from paceline.settings import LENGTHS
from paceline.store.stored import StoredRun
from paceline.training.metrics import target_words

REPEAT: Final = "repeat each side (--repeat 3)"
IMPOSSIBLE: Final = (
    "find out what slowed one worker (paceline explain on its run), then train longer or on a "
    "quieter machine"
)
# What is suggested should be long enough at the second try, on a machine in another mood.
_MARGIN: Final = 1.5


def limited(runs: Sequence[StoredRun]) -> tuple[str, str]:
    """Say how this machine was full, and what would leave it room."""
    full = [run for run in runs if run.result.host_limited]
    count = "" if len(full) == len(runs) else f" in {len(full)} of {len(runs)} runs"
    result = full[0].result
    evidence = result.verdict.evidence if result.verdict else {}
    if "other_programs" in evidence:
        share = f"{100 * evidence['other_programs']:.0f} %"
        why = f"this machine was fully loaded{count}, and other programs used {share} of its cores"
        return why, "end the other programs, or use a quieter machine"
    if result.compute == "replayed":
        why = f"this machine could not keep up with the device it replayed{count}"
        return why, f"slow time down (--dilation {2 * result.dilation:g}), or use fewer workers"
    why = f"this machine was fully loaded{count}: workers waited for a core"
    return why, _room(full[0])


def _room(run: StoredRun) -> str:
    """Say what fits on a machine whose own run fills it."""
    cores, workers = run.result.host_cores, run.result.num_workers
    fewer = ""
    if cores and workers > 1:
        fewer = f"use fewer workers (this machine has {cores} cores) or a quieter machine, or "
    name = run.result.workload.rpartition("/")[2]
    file = f"{name.rpartition(':')[2]}.rates.toml"
    return (
        f"{fewer}replay its compute: paceline calibrate {name}, then --cluster emulated "
        f"--device replay:{file}"
    )


def short(runs: Sequence[StoredRun], least_s: float) -> tuple[str, str]:
    """Say how short it was, and how long would be long enough."""
    shortest_s = min((run.result.train_s or 0.0) * run.result.dilation for run in runs)
    why = f"{shortest_s:.1f} s of training is too short to judge (less than {least_s:g} s)"
    target = next((run.result.target for run in runs if _ends_at_target(run)), None)
    if target is not None:
        return why, f"choose a target that takes longer to reach than {target_words(target)}"
    return why, longer(runs, _MARGIN * least_s / max(shortest_s, 1e-3))


def _ends_at_target(run: StoredRun) -> bool:
    """Whether a longer run would end at the same moment."""
    return run.result.seconds_to_target is not None


def longer(runs: Sequence[StoredRun], times: float) -> str:
    """Say how to train that many times as long, with the option that gave the length."""
    settings = runs[0].settings
    given = next((each for each in LENGTHS if settings.get(each) is not None), None)
    if given is None:
        return "train longer"
    wanted = _rounded_up(times * float(settings[given]))
    return f"train longer (--{given.replace('_', '-')} {wanted})"


def _rounded_up(number: float) -> int:
    """Two digits are enough of a number that is a suggestion."""
    unit = 10.0 ** max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return math.ceil(number / unit) * int(unit)
