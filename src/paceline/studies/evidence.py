"""What a study has to go by: its runs, and why some of them are not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from paceline.reading import untrusted
from paceline.reading.schema import fits
from paceline.store.stored import StoredRun
from paceline.studies.grid import PlannedRun

PEERS: Final = "peers.json"
"""What `benchmarks/study_peers.py` writes beside the runs."""
_NUMBERS: Final = ("peer_s", "ours_s", "ratio", "ratio_low", "ratio_high", "log_loss")
_PEER: Final = {**dict.fromkeys(_NUMBERS, float), "n": int, "setting": str}


class Untestable(Exception):
    """What a table, figure or claim needs is not there; says what, and why."""


@final
@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The runs of a study by their group and tags."""

    plans: Sequence[PlannedRun]
    runs: Mapping[str, StoredRun]
    """By the names of their plans."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why planned runs are not there, by their names."""
    notes: tuple[str, ...] = ()
    """In what the runs are not as they were planned."""
    peers: Mapping[str, Any] = field(default_factory=dict)
    """What the peers' benchmark measured on the same rows, where it was run."""

    @property
    def all_runs(self) -> list[StoredRun]:
        """Every run once, in the order of the plan: several names may stand for one."""
        named = (self.runs.get(each.name) for each in self.plans)
        return list({run.name: run for run in named if run is not None}.values())

    def find(self, group: str, **tags: Any) -> list[StoredRun]:
        """Give the runs of a group with these tags, in the order of their seeds."""
        wanted = sorted(self._plans(group, tags), key=lambda each: each.repetition)
        return [self.runs[each.name] for each in wanted if each.name in self.runs]

    def need(self, group: str, **tags: Any) -> list[StoredRun]:
        """Give the runs as `find` does; raises `Untestable` where there are none."""
        found = self.find(group, **tags)
        if not found:
            raise self.lacking(group, **tags)
        return found

    def lacking(self, group: str, **tags: Any) -> Untestable:
        """Give the error to raise where too few of these runs are there."""
        return Untestable(self._why_not(group, tags))

    def first(self, group: str, **tags: Any) -> StoredRun:
        """Give the run with the first seed."""
        return self.need(group, **tags)[0]

    def values(self, group: str, tag: str, **tags: Any) -> list[Any]:
        """Say which values of a tag were planned, and carried out at least once."""
        there = [each for each in self._plans(group, tags) if each.name in self.runs]
        return list(dict.fromkeys(each.tags[tag] for each in there))

    def planned(self, group: str, tag: str) -> list[Any]:
        """Say which values of a tag there will be when all is carried out."""
        return list(dict.fromkeys(each.tags[tag] for each in self._plans(group, {})))

    def is_settled(self, group: str, **tags: Any) -> bool:
        """Say whether each of these runs has finished, or it is known why it has not."""
        plans = self._plans(group, tags)
        return all(each.name in self.runs or each.name in self.missing for each in plans)

    def num_seeds(self, group: str, **tags: Any) -> int:
        """Say with how many seeds these runs were carried out; of several, those with most."""
        there = [each for each in self._plans(group, tags) if each.name in self.runs]
        return len({each.repetition for each in there})

    @property
    def num_planned(self) -> int:
        """How many runs there will be: without those that cannot be made here, or failed."""
        return sum(each.name not in self.missing for each in self.plans)

    def _plans(self, group: str, tags: Mapping[str, Any]) -> list[PlannedRun]:
        return [
            each
            for each in self.plans
            if each.group == group and all(each.tags.get(key) == tags[key] for key in tags)
        ]

    def _why_not(self, group: str, tags: Mapping[str, Any]) -> str:
        plans = self._plans(group, tags)
        named = " ".join(f"{key}={value}" for key, value in tags.items())
        what = f"runs of {group}" + (f" with {named}" if named else "")
        if not plans:
            return f"no {what} in this variant of the study"
        if reason := next((self.missing[p.name] for p in plans if p.name in self.missing), None):
            return f"no {what}: {reason}"
        num_there = sum(each.name in self.runs for each in plans)
        so_far = " so far" if num_there < len(plans) else ""
        return f"{'too few' if num_there else 'no'} {what}{so_far}"


def with_peers(evidence: Evidence, out: Path) -> Evidence:
    """Add what the peers' benchmark measured, if it was run into the same folder."""
    try:
        peers = untrusted.read_json(out / PEERS)
    except (OSError, ValueError):
        return evidence
    known = peers.items() if isinstance(peers, dict) else ()
    return dataclasses.replace(
        evidence, peers={name: peer for name, peer in known if _is_told(peer)}
    )


def _is_told(peer: object) -> bool:
    return fits(peer, {"reason": str}) or fits(peer, _PEER)
