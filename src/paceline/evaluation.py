"""Accuracy and loss on the test rows, off the training clock."""

from __future__ import annotations

from collections import defaultdict
from typing import final

import torch
from torch import Tensor

from paceline.replica import Replica
from paceline.spec import RunSpec
from paceline.strategies.base import Member


@final
class Evaluator:
    """Evaluates the newest parameters; worker 0 has one."""

    def __init__(self, spec: RunSpec, replica: Replica, member: Member) -> None:
        self._workload = spec.workload
        self._replica = replica
        self._member = member
        self._bring = replica.bringer(member.pull)
        self._data = spec.workload.data("test", getattr(torch, spec.dtype))
        # The same rows every time and in every run: a choice that followed the seed would
        # add its noise to every comparison. In rising order, as rows in files are best read.
        order = torch.randperm(len(self._data), generator=torch.Generator().manual_seed(0))
        self._rows = order[: spec.eval_samples].sort().values

    def metrics(self) -> dict[str, float]:
        """Give each metric over the test rows."""
        self._member.refresh()
        model = self._replica.model
        sums: defaultdict[str, float] = defaultdict(float)
        columns: defaultdict[str, list[Tensor]] = defaultdict(list)
        model.eval()
        with torch.no_grad():
            for rows in torch.split(self._rows, self._workload.test_batch):
                batch = self._data.take(rows)
                touched = self._data.touched(batch)
                if touched is not None:
                    self._bring(touched)
                for name, value in self._workload.metrics(model, batch).items():
                    if value.dim():
                        columns[name].append(value)
                    else:
                        sums[name] += float(value) * len(rows)
        model.train()
        joined = {name: torch.cat(parts) for name, parts in columns.items()}
        means = {name: total / len(self._rows) for name, total in sums.items()}
        return means | self._workload.joined_metrics(joined)
