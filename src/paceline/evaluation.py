"""Accuracy and loss on the test rows, off the training clock."""

from __future__ import annotations

from collections import defaultdict
from typing import final

import torch

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
        self._data = spec.workload.data("test", getattr(torch, spec.dtype))
        # The same rows every time and in every run: a choice that followed the seed would
        # add its noise to every comparison. In rising order, as rows in files are best read.
        order = torch.randperm(len(self._data), generator=torch.Generator().manual_seed(0))
        self._rows = order[: spec.eval_samples].sort().values

    def metrics(self) -> dict[str, float]:
        """Give each metric's mean over the test rows."""
        self._member.refresh()
        model = self._replica.model
        sums: defaultdict[str, float] = defaultdict(float)
        model.eval()
        with torch.no_grad():
            for rows in torch.split(self._rows, self._workload.test_batch):
                batch = self._data.take(rows)
                touched = self._data.touched(batch)
                if touched is not None:
                    self._member.pull(touched)
                for name, value in self._workload.metrics(model, batch).items():
                    sums[name] += float(value) * len(rows)
        model.train()
        return {name: total / len(self._rows) for name, total in sums.items()}
