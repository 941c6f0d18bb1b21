"""Sides: runs that repeat one another, under a label that tells them from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final, final

from paceline.settings import LENGTHS
from paceline.store.stored import StoredRun

_WORDS: Final = {
    "num_workers": "{} workers",
    "batch": "batch {}",
    "optimizer.lr": "lr {}",
    "optimizer.name": "{}",
    "optimizer.lr_scaling": "lr scaling {}",
    "workload.name": "{}",
    "cluster.name": "{}",
    "cluster.link": "{}",
    "dilation": "dilated {}x",
}
# What stands before a label that not all of some runs have.
# What names a side wherever it differs, also between strategies.
_ALWAYS_TOLD: Final = ("workload.", "device", "dilation", "cluster.name", "cluster.link")
# Fields of workloads that change neither the model nor its rows, only where and how these are read.
_SAME_TASK: Final = (
    "workload.data_dir",
    "workload.load_threads",
    "workload.memory_bytes",
    "workload.channels_last",
)


FROM_MANY: Final = 5
"""From this many repetitions on, the range leaves out the lowest and the highest."""


@final
@dataclass(frozen=True, kw_only=True)
class Measure:
    """A figure over the repetitions of a side."""

    median: float
    low: float
    high: float
    count: int
    without_ends: tuple[float, float] | None = None
    """The range without its lowest and its highest run, of five and more."""

    @property
    def inner(self) -> tuple[float, float]:
        """The range by which ties are judged: one disturbed run of many decides nothing."""
        return self.without_ends or (self.low, self.high)

    @property
    def spread(self) -> float:
        return self.high - self.low


@final
@dataclass(frozen=True, kw_only=True)
class Side:
    """What is compared with other sides: one run, or several of the same spec."""

    label: str
    strategy: str
    variant: str
    """What tells it from other sides of its strategy; empty where there are none."""
    runs: tuple[StoredRun, ...]

    @property
    def finished(self) -> list[StoredRun]:
        return [run for run in self.runs if run.is_finished]

    @property
    def shown(self) -> StoredRun:
        """The run whose lines are drawn: of the finished ones the one in the middle."""
        runs = sorted(self.finished or self.runs, key=lambda run: run.result.train_s or 0.0)
        return runs[(len(runs) - 1) // 2]

    @property
    def num_workers(self) -> int:
        return self.runs[0].result.num_workers

    def measure(self, get: Callable[[StoredRun], float | None]) -> Measure | None:
        """Take a figure from every finished run; None where it is not known of all of them."""
        values = [get(run) for run in self.finished]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        inorder = sorted(known)
        many = len(known) >= FROM_MANY
        return Measure(
            median=median(known),
            low=inorder[0],
            high=inorder[-1],
            count=len(known),
            without_ends=(inorder[1], inorder[-2]) if many else None,
        )

    def median(self, get: Callable[[StoredRun], float | None]) -> float | None:
        measured = self.measure(get)
        return measured.median if measured else None


def sides_of(runs: Iterable[StoredRun]) -> list[Side]:
    """Group runs by what was asked for: strategies in the order they came, their sides together."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(run.settings.items(), key=str)), []).append(run)
    firsts = [group[0] for group in groups.values()]
    different = [key for key in differing(firsts) if key not in _SAME_TASK]
    told = [key for start in _ALWAYS_TOLD for key in different if key.startswith(start)]
    sides = _told_apart([_side(group, firsts, told) for group in groups.values()])
    came = list(dict.fromkeys(side.strategy for side in sides))
    return sorted(sides, key=lambda side: came.index(side.strategy))


def _told_apart(sides: Sequence[Side]) -> list[Side]:
    """Number sides whose labels are the same, so that nothing is drawn over another."""
    seen: Counter[str] = Counter()
    apart = []
    for side in sides:
        seen[side.label] += 1
        number = seen[side.label]
        label = f"{side.label} ({number})" if number > 1 else side.label
        apart.append(replace(side, label=label))
    return apart


def differing(runs: Sequence[StoredRun]) -> list[str]:
    """Name the settings in which runs differ.

    A field that some do not have is no difference: theirs is an older version, or another strategy.
    """
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    return [key for key in keys if _differs(key, [run.settings.get(key) for run in runs])]


def _differs(key: str, values: Sequence[object]) -> bool:
    told = [value for value in values if value is not None or key in LENGTHS]
    return len(set(map(repr, told))) > 1


def are_comparable(side: Side, other: Side) -> bool:
    """Whether both train the same model on the same rows, on the same kind of device.

    Seconds and rows per second of others are no measure of each other.
    """
    ours, theirs = side.shown, other.shown
    if _device(ours) != _device(theirs) or ours.result.workload != theirs.result.workload:
        return False
    fields = (key for key in differing([ours, theirs]) if key.startswith("workload."))
    return all(key in _SAME_TASK for key in fields)


def comparable(sides: Iterable[Side]) -> list[list[Side]]:
    """Put sides together that may be compared, in the order in which they came."""
    groups: list[list[Side]] = []
    for side in sides:
        fitting = (group for group in groups if all(are_comparable(side, each) for each in group))
        group = next(fitting, None)
        if group is None:
            groups.append([side])
        else:
            group.append(side)
    return groups


def task_words(side: Side, sides: Sequence[Side]) -> str:
    """Say what a side trains, and on what, as far as that tells it from some of the sides."""
    runs = [each.shown for each in sides]
    keys = [key for key in differing(runs) if key.startswith("workload.")]
    kept = [key for key in keys if key not in {*_SAME_TASK, "workload.name"}]
    settings = _words(side.shown, kept)
    devices = {_device(run) for run in runs}
    device = _device_words(side.shown, devices) if len(devices) > 1 else ""
    return ", ".join(filter(None, (short(side.shown.result.workload), settings, device)))


def _device(run: StoredRun) -> tuple[str, str]:
    return run.result.device, run.result.label


def _device_words(run: StoredRun, devices: Iterable[tuple[str, str]]) -> str:
    """The label is what readers know; the device is named where labels alone are alike."""
    device, label = _device(run)
    alike = {each for each, its in devices if its == label}
    return f"{label} on {short(device)}" if len(alike) > 1 else label


def reference_of(side: Side, sides: Sequence[Side]) -> Side | None:
    """Give the side with one worker that is most like this one: what a speed-up is against.

    None where no side with one worker may be compared with it.
    """
    single = [each for each in sides if each.num_workers == 1 and each.finished]
    alike = [each for each in single if are_comparable(side, each)]
    return max(alike, key=lambda each: _likeness(side, each), default=None)


def _likeness(side: Side, other: Side) -> int:
    ours, theirs = side.runs[0].settings, other.runs[0].settings
    return sum(repr(theirs.get(key)) == repr(value) for key, value in ours.items())


def _side(group: list[StoredRun], firsts: Sequence[StoredRun], told: Sequence[str]) -> Side:
    first = group[0]
    strategy = short(first.result.strategy)
    siblings = [run for run in firsts if short(run.result.strategy) == strategy]
    own = differing(siblings)
    variant = _words(first, own)
    named = _words(first, [*told, *(key for key in own if key not in told)])
    label = f"{strategy}, {named}" if named else strategy
    return Side(label=label, strategy=strategy, variant=variant, runs=tuple(group))


def _words(run: StoredRun, keys: Sequence[str]) -> str:
    words = [_word(key, run.settings.get(key)) for key in keys]
    return ", ".join(word for word in words if word)


def _word(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        text = " and ".join(map(str, value))
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    if key == "num_workers" and value == 1:
        return "1 worker"
    if key in _WORDS:
        return _WORDS[key].format(short(text))
    return f"{key.rpartition('.')[2].replace('_', ' ')} {text}"


def short(name: str) -> str:
    """Name a user's own part without the folders it is in."""
    return name.rpartition("/")[2]
