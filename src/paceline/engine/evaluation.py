"""Metrics on the test rows, off the training clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, final

import torch
from torch import Tensor

from paceline.errors import Problem, SpecError, WorkloadError
from paceline.spec import RunSpec
from paceline.strategies.base import Member
from paceline.training.answers import call, joined_of, metrics_of
from paceline.training.replica import Replica
from paceline.workloads.base import Workload, rows_of

# So many rows show before training what metrics there are.
_TRIED_ROWS: Final = 16


@final
class Evaluator:
    """Evaluates the newest parameters, in the worker that is asked to."""

    def __init__(self, spec: RunSpec, replica: Replica, member: Member) -> None:
        self._workload = spec.workload
        self._targets = spec.targets
        self._replica = replica
        self._bring = replica.bringer(member.pull)
        self._data = rows_of(spec.workload, "test", getattr(torch, spec.dtype))
        if not len(self._data):
            raise WorkloadError(call(spec.workload, "data('test', dtype)"), "test rows", "none")
        # The same rows every time and in every run: a choice that followed the seed would
        # add its noise to every comparison. In rising order, as rows in files are best read.
        order = torch.randperm(len(self._data), generator=torch.Generator().manual_seed(0))
        self._rows = order[: spec.eval_samples].sort().values

    def try_out(self) -> None:
        """Evaluate a few rows before training, so that what is wrong with metrics is told then.

        Draws no random numbers from those that training will draw. Rows of a table come from
        others, who may not be there yet: then the first evaluation tells.
        """
        rows = self._rows[: min(_TRIED_ROWS, self._workload.test_batch)]
        if self._data.touched(self._data.take(rows)) is not None:
            return
        with torch.random.fork_rng(devices=[]):
            means, columns = self._batches([rows])
            try:
                joined = self._workload.joined_metrics(columns)
            except Exception:  # noqa: BLE001 - so few rows may be no ranking: of one class, perhaps
                return
        self._check_targets([*means, *joined_of(self._workload, joined)])

    def metrics(self) -> dict[str, float]:
        """Give each metric over the test rows; all workers have settled before."""
        means, columns = self._batches(torch.split(self._rows, self._workload.test_batch))
        metrics = means | joined_of(self._workload, self._workload.joined_metrics(columns))
        self._check_targets(metrics)
        return metrics

    def _batches(self, chunks: Iterable[Tensor]) -> tuple[dict[str, float], dict[str, Tensor]]:
        """Give the means over all rows, and what has a value for each row."""
        model = self._replica.model
        sums: defaultdict[str, float] = defaultdict(float)
        columns: defaultdict[str, list[Tensor]] = defaultdict(list)
        num_rows = 0
        model.eval()
        with torch.no_grad():
            for rows in chunks:
                num_rows += len(rows)
                for name, value in self._of_batch(rows).items():
                    if isinstance(value, Tensor):
                        columns[name].append(value)
                    else:
                        sums[name] += value * len(rows)
        model.train()
        means = {name: total / num_rows for name, total in sums.items()}
        return means, {name: torch.cat(parts) for name, parts in columns.items()}

    def _of_batch(self, rows: Tensor) -> dict[str, float | Tensor]:
        batch = self._data.take(rows)
        touched = self._data.touched(batch)
        if touched is not None:
            self._bring(touched)
        given = self._workload.metrics(self._replica.model, batch)
        joins = type(self._workload).joined_metrics is not Workload.joined_metrics
        return metrics_of(self._workload, given, len(rows), joins=joins)

    def _check_targets(self, known: Iterable[str]) -> None:
        """A target that is never measured would never be reached."""
        names = tuple(known)
        reason = f"{type(self._workload).__name__}'s metrics have no such name"
        unknown = [each for each in self._targets if each.metric not in names]
        if unknown:
            raise SpecError([Problem("target", str(each), reason, names) for each in unknown])
