"""What a resumed run goes on from: a checkpoint of another run, and the rows up to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from paceline.comm.ticket import Resumed
from paceline.errors import Problem, SpecError, StoreError
from paceline.faults import Fault
from paceline.outcome.outcome import Outcome
from paceline.seats import role_of, worker_names
from paceline.spec import RunSpec
from paceline.store.checkpoints import Checkpoint, Manifest, lay_out, newest
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun


@final
@dataclass(frozen=True)
class Origin:
    """A checkpoint, whose it is, and what a reader of the new run should know of it."""

    parent: StoredRun
    checkpoint: Checkpoint
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(parent: StoredRun) -> Origin:
        """Take the newest checkpoint of a run that is whole. Raises `StoreError`, `SpecError`."""
        if parent.is_finished:
            reason = "it has finished: there is nothing to resume"
            raise SpecError([Problem("run", parent.name, reason)])
        checkpoint, problems = newest(parent.folder)
        notes = tuple(f"not resumed from a newer checkpoint: {each}" for each in problems)
        return Origin(parent, checkpoint, notes)

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    def check(self, spec: RunSpec) -> None:
        """Raise `SpecError` where the checkpoint is of other servers, or of a later moment, than a
        spec asks for.
        """
        made = {"steps": self.manifest.progress, "seconds": self.manifest.time_s}
        for field, done in made.items():
            wanted = getattr(spec, field)
            if wanted is not None and wanted <= done:
                reason = f"the checkpoint is of {field} = {done:g} already: give more"
                raise SpecError([Problem(field, wanted, reason)])
        there = {seat for seat in self.manifest.seats if role_of(seat) == "server"}
        servers = {seat.name for seat in spec.seats() if seat.role == "server"}
        if there != servers:
            reason = f"{len(servers)} servers, but the checkpoint has the states of {len(there)}"
            raise SpecError([Problem("num_workers", spec.num_workers, reason)])

    def faults_left(self, faults: Sequence[Fault]) -> list[Fault]:
        """Give those that have not struck yet: what ended the parent would end this one too."""
        return [each for each in faults if each.goes_on or not self.has_struck(each)]

    def has_struck(self, fault: Fault) -> bool:
        """Whether a fault has struck, or was due, before the checkpoint."""
        struck = {each.fault for each in self.parent.result.disturbances}
        is_due = fault.is_due(self.manifest.time_s, self.manifest.progress)
        return str(fault) in struck or is_due

    def _is_same_group(self, num_workers: int) -> bool:
        """Whether these are the workers that the parent had: each then goes on as it was.

        With those alone that outlived another it is another group: the rows are dealt anew.
        """
        has_all = self.manifest.seats.keys() >= set(worker_names(num_workers))
        return has_all and num_workers == self.parent.result.num_workers

    def _workers_kept(self) -> str:
        """Say of how many workers the checkpoint is, and of how many the parent was."""
        kept, had = self.manifest.num_workers, self.parent.result.num_workers
        return f"{kept}" if kept == had else f"{kept} of {had}"

    def facts(self) -> dict[str, Any]:
        """What the facts of the new run say of its parent."""
        return {"parent": self.parent.name, "parent_step": self.checkpoint.progress}

    def lay_out(self, run_dir: RunDir, outcome: Outcome, num_workers: int) -> Resumed:
        """Have the new run begin with the checkpoint, and with all rows up to it."""
        lay_out(self.checkpoint, run_dir)
        outcome.warnings += self.notes
        is_same_group = self._is_same_group(num_workers)
        if not is_same_group:
            outcome.warnings.append(
                f"it goes on with {num_workers} workers from a checkpoint of "
                f"{self._workers_kept()}: the result is not what it would have been"
            )
        try:
            self._repeat_rows(run_dir)
        except (OSError, StoreError) as error:
            outcome.warnings.append(f"it has no rows of {self.parent.name}: {error}")
        return Resumed(
            progress=self.checkpoint.progress,
            first=self.manifest.first,
            is_same_group=is_same_group,
            time_s=self.manifest.time_s,
        )

    def _repeat_rows(self, run_dir: RunDir) -> None:
        """Write the parent's rows again, but for those of steps that the new run makes itself.

        A row is written where workers rest, so none is partly before the checkpoint.
        """
        for seat in self.manifest.seats:
            if role_of(seat) == "worker":
                rows = self._rows_of(seat)
                text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
                run_dir.seat_records(seat).write_text(text)

    def _rows_of(self, seat: str) -> list[dict[str, Any]]:
        rows = self.parent.steps
        if rows.is_empty():
            return []
        import polars

        kept = rows.filter(
            (polars.col("seat") == seat) & (polars.col("time_s") <= self.manifest.time_s)
        )
        return kept.drop("seat").to_dicts()
