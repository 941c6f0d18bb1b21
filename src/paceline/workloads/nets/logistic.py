"""Logistic regression on features of which a row has few."""

from __future__ import annotations

import contextlib
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import profiler

from paceline.training.rows import Rows


@final
class SparseLogistic(nn.Module):
    """One weight a feature, kept in a table of rows, and a bias."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weights = Rows(num_features)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(
        self, positions: Tensor, values: Tensor | None = None, bags: Tensor | None = None
    ) -> Tensor:
        summed: Tensor = self.weights(positions, values, bags)
        return summed.squeeze(1) + self.bias

    def gradients(self, positions: Tensor, labels: Tensor) -> float | None:
        """Put the gradients of the mean loss where back-propagation would; returns that loss.

        The formula is short, and a batch's share of the weights is small: numpy is through with it
        before torch's back-propagation has begun. Returns None, having done nothing, where there is
        no such share because the whole table is a parameter.
        """
        window, bias = self.weights.window, self.bias.grad
        if self.weights.held is not None or bias is None:
            return None
        weights, flat = window.detach().numpy().reshape(-1), positions.numpy().reshape(-1)
        with _profiled("forward_product"):
            logits = weights.take(flat).reshape(positions.shape).sum(1)
            logits += self.bias.detach().numpy()
        truth, num_rows = labels.numpy(), max(1, labels.numel())
        # What is not finite is refused later, and counted.
        with _profiled("loss"), np.errstate(all="ignore"):
            loss = np.logaddexp(0, logits) - truth * logits
            errors = (0.5 + 0.5 * np.tanh(0.5 * logits) - truth) / num_rows
        with _profiled("backward_product"):
            each = np.repeat(errors, positions.shape[1])
            total = np.bincount(flat, each, len(weights)).astype(weights.dtype)
        window.grad = torch.from_numpy(total).view(-1, 1)
        bias.numpy()[:] += errors.sum()
        return float(loss.sum()) / num_rows


def _profiled(what: str) -> contextlib.AbstractContextManager[object]:
    """Show what numpy does to torch's profiler, which sees torch's own operators only."""
    if not profiler._is_profiler_enabled:  # noqa: SLF001 - a mark takes as long as a small product
        return contextlib.nullcontext()
    return profiler.record_function(f"numpy::{what}")
