"""Where the time of a sparse model's gradient goes, operator by operator (S5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, final

from paceline.store.stored import StoredRun
from paceline.studies.evidence import Untestable
from paceline.studies.measures import known

_ADD: Final = "aten::index_add_"
_FILL: Final = "aten::fill_"
_PRODUCTS: Final = (_ADD, "numpy::backward_product")


@final
@dataclass(frozen=True, kw_only=True)
class ProductTimes:
    """The backward product of worker 0's steps beside its other operators, in milliseconds."""

    product_ms: float
    is_seen: bool
    """Whether a profile saw the product; else `product_ms` is all that a step computes."""
    others: Mapping[str, float]

    @classmethod
    def of(cls, run: StoredRun) -> Self:
        """Read the profile; raises `Untestable` where there is none.

        The backward product is two operators of torch: room for the gradients is filled with
        zeros, and products are added up in it. Where rows are sparse numpy makes it, which profiles
        of older runs do not show: then it takes at most as long as all that a step computes.
        """
        rows = _profiled(run)
        sizes = {_size(row) for row in rows if row["operator"] == _ADD}
        others, product_ms = dict[str, float](), 0.0
        for row in rows:
            name, ms = str(row["operator"]), float(row["ms_per_step"])
            if name in _PRODUCTS or (name == _FILL and _size(row) in sizes):
                product_ms += ms
            else:
                others[_short(name)] = others.get(_short(name), 0.0) + ms
        if any(row["operator"] in _PRODUCTS for row in rows):
            return cls(product_ms=product_ms, is_seen=True, others=others)
        return cls(product_ms=_compute_ms(run), is_seen=False, others=others)

    @property
    def largest_other(self) -> str:
        return max(self.others, key=lambda name: self.others[name], default="nothing else")

    @property
    def is_largest(self) -> bool | None:
        """Whether no other operator takes as long as the product; None where it is not known."""
        is_above = self.product_ms > self.others.get(self.largest_other, 0.0)
        return None if is_above and not self.is_seen else is_above

    @property
    def text(self) -> str:
        most = "" if self.is_seen else "at most "
        other = f"{self.largest_other} {self.others.get(self.largest_other, 0.0):.3f} ms"
        return f"backward product {most}{self.product_ms:.3f} ms per step, then {other}"


def operator_ms(run: StoredRun) -> dict[str, float]:
    """Milliseconds that each operator of worker 0 takes of a step, without those it calls."""
    times: dict[str, float] = {}
    for row in _profiled(run):
        name = _short(str(row["operator"]))
        times[name] = times.get(name, 0.0) + float(row["ms_per_step"])
    return times


def _profiled(run: StoredRun) -> list[dict[str, Any]]:
    rows = run.folder.read_operators("worker0")
    if not rows:
        raise Untestable("the runs were not profiled (record.profile)")
    return rows


def _compute_ms(run: StoredRun) -> float:
    worker = run.result.workers[0]
    return 1000 * known(worker.compute_s, "the time of computing") / max(worker.worker_steps, 1)


def _size(row: Mapping[str, Any]) -> int | None:
    """How many values an operator's first input has."""
    first = (row.get("input_shapes") or [None])[0]
    is_shape = isinstance(first, list) and all(isinstance(each, int) for each in first)
    return math.prod(first) if is_shape else None


def _short(operator: str) -> str:
    return operator.removeprefix("aten::")
