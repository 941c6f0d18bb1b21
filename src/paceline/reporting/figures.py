"""The figures of a report on runs: each a typed table, then how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, final

import polars

from paceline.exhibits import drawing
from paceline.exhibits.marks import Mark
from paceline.exhibits.values import Column, Figure, Table, table_of
from paceline.reporting.level import Group
from paceline.reporting.metric_columns import columns_for
from paceline.reporting.ranking import speed_up
from paceline.reporting.sides import Side
from paceline.reporting.tables import NODE, SIDE, spread_of
from paceline.store import curves
from paceline.store.stored import StoredRun, labels_of
from paceline.training.metrics import in_order, metrics_in
from paceline.verdict import all_parts

if TYPE_CHECKING:
    import altair

TIME: Final = Column(name="time_s", label="training time", unit="s", form=".2f")

# More points than this in a figure take long to draw and show nothing more.
_ALL_POINTS: Final = 2400
_FEWEST_POINTS: Final = 60
# A metric for each of a thousand classes would make a page that nobody reads.
_MOST_METRICS: Final = 12
# A fixed order and colours that colour-blind readers can tell apart.
_PARTS: Final = {
    "load_s": ("load", "#ddcc77"),
    "compute_s": ("compute", "#44aa99"),
    "wait_s": ("wait for the slowest", "#999933"),
    "transfer_s": ("send and receive", "#cc6677"),
    "queue_s": ("queue at a server", "#aa4499"),
    "apply_s": ("apply", "#88ccee"),
    "other_s": ("other", "#999999"),
}


@final
@dataclass(frozen=True)
class Gallery:
    """All figures of some sides; a figure of which there is nothing to show is None."""

    sides: Sequence[Side]
    groups: Sequence[Group]
    labels: tuple[str, ...] = ()

    @cached_property
    def strategies(self) -> dict[str, str]:
        """Each side's label with its strategy, which decides its colour."""
        return {side.label: side.strategy for side in self.sides}

    @property
    def most_points(self) -> int:
        share = _ALL_POINTS // max(1, len(self.sides))
        return max(_FEWEST_POINTS, min(curves.MOST_POINTS, share))

    @cached_property
    def marks(self) -> list[Mark]:
        """When faults struck the runs that are shown, or seats were lost."""
        return [
            Mark(at=each.struck_s, label=each.fault or f"{each.who} lost", line=side.label)
            for side in self.sides
            for each in side.shown.result.disturbances
        ]

    def _over_time(self, **options: Any) -> Callable[..., altair.TopLevelMixin]:
        return partial(drawing.lines, x=TIME, marks=self.marks, **options)

    def loss(self) -> list[Figure]:
        """Training loss against time, rows and steps."""
        frame = self._joined(partial(curves.loss, most_points=self.most_points))
        axes = {
            "time": TIME,
            "samples": Column(name="samples", label="rows", form=",.0f"),
            "steps": Column(name="steps", label="updates of the parameters", form=",.0f"),
        }
        found = [self._loss(frame, name, axis) for name, axis in axes.items()]
        return [figure for figure in found if figure]

    def _loss(self, frame: polars.DataFrame, against: str, axis: Column) -> Figure | None:
        smooth = Column(name="smoothed", label="training loss", form=".4f")
        raw = Column(name="loss", label="training loss, raw", form=".4f")
        return self._figure(
            name=f"loss-{against}",
            title=f"Loss against {'rows' if against == 'samples' else against}",
            caption="Mean training loss of all workers: smoothed, with the raw values behind it.",
            frame=frame,
            columns=(SIDE, axis, raw, smooth),
            draw=self._over_time(y=smooth, faint=raw)
            if axis is TIME
            else partial(drawing.lines, x=axis, y=smooth, faint=raw),
        )

    def metrics(self) -> list[Figure]:
        """Each metric on the test rows against time."""
        runs = [side.shown for side in self.sides]
        names = in_order(name for run in runs for name in metrics_in(run.evaluations.schema))
        frames = {
            name: self._joined(partial(curves.metric, name=name)) for name in names[:_MOST_METRICS]
        }
        columns = columns_for({name: frame[name].to_list() for name, frame in frames.items()})
        found = [self._metric(name, columns[name], frame) for name, frame in frames.items()]
        return [figure for figure in found if figure]

    def _metric(self, metric: str, column: Column, frame: polars.DataFrame) -> Figure | None:
        value = replace(column, label=f"test {metric}")
        progress = Column(name="progress", label="updates", form=",.0f")
        # A user's name stands as the user wrote it.
        title = {"accuracy": "Accuracy", "loss": "Test loss"}.get(metric, metric)
        return self._figure(
            name=f"{value.name.replace('_', '-')}-time",
            title=f"{title} against time",
            caption=f"{title} on the test rows. Evaluations do not count as training time.",
            frame=frame.rename({metric: value.name}),
            columns=(SIDE, TIME, progress, value),
            draw=self._over_time(y=value),
        )

    def speed(self) -> Figure | None:
        """Steps per second over time."""
        steps = Column(name="steps_per_s", label="steps/s", form=",.0f")
        rows = Column(name="samples_per_s", label="rows/s", form=",.0f")
        return self._figure(
            name="steps-per-second",
            title="Steps per second over time",
            caption="Updates of the shared parameters per second; without shared "
            "parameters, steps of "
            "all workers.",
            frame=self._joined(partial(curves.rate, most_points=self.most_points)),
            columns=(SIDE, TIME, steps, rows),
            draw=self._over_time(y=steps, zero=True),
        )

    def speed_up(self) -> Figure | None:
        """Rows per second against one worker."""
        rows = [{"side": side.label} | spread_of(speed_up(side, self.sides)) for side in self.sides]
        if sum(row["value"] is not None for row in rows) < 2:
            return None
        return self._bars(
            rows,
            Column(name="value", label="speed-up", unit="times", form=".2f"),
            name="speed-up",
            title="Speed-up",
            caption="Rows per second against one worker of the same workload and device, which the "
            "dashed line marks.",
            rule=1.0,
        )

    def times(self) -> list[Figure]:
        """How long each side took, as compared in the conclusion: a figure for each group."""
        groups = [group for group in self.groups if group.finished]
        if len(groups) == 1:
            found = [self._times(groups[0], "time")]
        else:
            # Of a side that stands alone nothing is compared.
            several = [group for group in groups if len(group.finished) > 1]
            found = [
                self._times(group, f"time-{number}", f", {group.title}")
                for number, group in enumerate(several, 1)
            ]
        return [figure for figure in found if figure]

    def _times(self, group: Group, name: str, of: str = "") -> Figure | None:
        stick = group.stick
        is_rate = stick.kind == "rate"
        label, form = ("rows per second", ",.0f") if is_rate else ("training time", ".2f")
        return self._bars(
            [{"side": side.label} | spread_of(stick.measure(side)) for side in group.sides],
            Column(name="value", label=label, unit=stick.unit, form=form),
            name=name,
            title=f"{'Rows per second' if is_rate else f'Time {stick.words}'}{of}",
            caption="Medians; the thin line is the spread over repetitions.",
            labels=labels_of([run for side in group.sides for run in side.runs]),
        )

    def _bars(
        self,
        rows: Sequence[dict[str, Any]],
        value: Column,
        *,
        name: str,
        title: str,
        caption: str,
        rule: float | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> Figure | None:
        known = [row for row in rows if row["value"] is not None]
        columns = (
            SIDE,
            value,
            *(replace(value, name=each, label=each) for each in ("low", "high")),
        )
        return self._figure(
            name=name,
            title=title,
            caption=caption,
            frame=table_of(name, title, known, columns).frame,
            columns=columns,
            draw=partial(drawing.bars, value=value, low="low", high="high", rule=rule),
            labels=labels,
        )

    def usage(self) -> list[Figure]:
        """CPU, memory, network, packets and disk of every node over time."""
        num_nodes = max(len(side.shown.result.nodes) for side in self.sides) or 1
        most_points = max(_FEWEST_POINTS // 2, self.most_points // num_nodes)
        frame = self._joined(partial(curves.usage, most_points=most_points))
        found = [self._usage(frame, *each) for each in _USAGE]
        return [figure for figure in found if figure]

    def _usage(
        self, frame: polars.DataFrame, name: str, title: str, value: Column
    ) -> Figure | None:
        if value.name not in frame.columns:
            return None
        known = frame.filter(polars.col(value.name).is_not_null())
        # A node without a link counts nothing, and a line of zeros would say it was measured.
        if not (known[value.name] > 0).any():
            return None
        panels = "node" if known["node"].n_unique() > 1 else None
        each = " One panel per node." if panels else ""
        return self._figure(
            name=name,
            title=title,
            caption=f"Samples taken while training, about two per second.{each}",
            frame=known,
            columns=(SIDE, NODE, TIME, value),
            draw=self._over_time(y=value, panels=panels, zero=True),
        )

    def exchanged(self) -> Figure | None:
        """What workers sent and received over time, where no link counts it."""
        sent, received, both = (
            Column(name=f"{name}_bytes_per_s", label=name, unit="MB/s", form=",.2f", scale=1e-6)
            for name in ("sent", "received", "exchanged")
        )
        frame = self._joined(partial(curves.exchanged, most_points=self.most_points))
        if frame.is_empty():
            return None
        total = polars.col(sent.name) + polars.col(received.name)
        return self._figure(
            name="exchanged",
            title="Exchanged, sent and received",
            caption="Values of all workers, as they counted them, including through shared memory.",
            frame=frame.with_columns(total.alias(both.name)),
            columns=(SIDE, TIME, both, sent, received),
            draw=self._over_time(y=both, zero=True),
        )

    def staleness(self) -> Figure | None:
        """How many updates had which staleness."""
        value = Column(name="staleness", label="staleness (updates by other workers)", form="d")
        count = Column(name="count", label="updates", form=",")
        share = Column(name="share", label="share of all updates", unit="%", form=".2f", scale=100)
        rows = [row for side in self.sides for row in _staleness_rows(side)]
        columns = (SIDE, value, count, share)
        return self._figure(
            name="staleness",
            title="Staleness",
            caption="How many updates others made between a worker's pull and its push.",
            frame=table_of("staleness", "", rows, columns).frame,
            columns=columns,
            draw=partial(drawing.histogram, x=value, y=share),
        )

    def parts(self) -> Figure | None:
        """Where a worker's step spends its time."""
        value = Column(name="ms", label="a worker's step", unit="ms", form=".3f")
        rows = [row for side in self.sides for row in _part_rows(side)]
        columns = (SIDE, Column(name="part", label="part"), value)
        there = {row["part"] for row in rows}
        colours = {part: colour for part, colour in _PARTS.values() if part in there}
        return self._figure(
            name="step-parts",
            title="Where a step's time goes",
            caption="The mean step of all workers. Computing that overlaps with sending gradients "
            "counts as computing.",
            frame=table_of("step-parts", "", rows, columns).frame,
            columns=columns,
            draw=partial(drawing.stacked, value=value, part="part", parts=colours),
        )

    def _joined(self, curve: Callable[[StoredRun], polars.DataFrame]) -> polars.DataFrame:
        """One curve of each side, in one frame."""
        frames = []
        for side in self.sides:
            frame = curve(side.shown)
            if not frame.is_empty():
                named = frame.with_columns(polars.lit(side.label).alias("side"))
                frames.append(named.cast({polars.Int64: polars.Float64}))
        return polars.concat(frames, how="diagonal") if frames else polars.DataFrame()

    def _figure(
        self,
        *,
        name: str,
        title: str,
        caption: str,
        frame: polars.DataFrame,
        columns: tuple[Column, ...],
        draw: Callable[..., altair.TopLevelMixin],
        labels: tuple[str, ...] | None = None,
    ) -> Figure | None:
        """Make a figure of sides, labelled as the page is; None where there is nothing to draw."""
        if frame.is_empty():
            return None
        labels = self.labels if labels is None else labels
        chosen = frame.select([column.name for column in columns])
        table = Table(name=name, title=title, frame=chosen, columns=columns, labels=labels)
        return Figure(
            name=name,
            title=title,
            caption=caption,
            table=table,
            draw=partial(draw, by="side", strategies=self.strategies),
            labels=labels,
        )


_USAGE: Final = (
    ("cpu", "CPU", Column(name="cpu_percent", label="CPU", unit="% of one core", form=",.0f")),
    (
        "device",
        "Device",
        Column(name="device_busy_percent", label="device busy", unit="% of the time", form=",.0f"),
    ),
    (
        "memory",
        "Memory",
        Column(name="memory_bytes", label="memory", unit="MB", form=",.0f", scale=1e-6),
    ),
    *(
        (
            f"network-{way}",
            f"Network, {way}",
            Column(name=f"net_{way}_bytes_per_s", label=way, unit="MB/s", form=",.2f", scale=1e-6),
        )
        for way in ("sent", "received")
    ),
    *(
        (
            f"packets-{way}",
            f"Packets {way}",
            Column(name=f"packets_{way}_per_s", label=f"packets {way}", unit="1/s", form=",.0f"),
        )
        for way in ("sent", "received")
    ),
    *(
        (
            f"disk-{way}",
            f"Disk, {way}",
            Column(name=f"disk_{way}_bytes_per_s", label=way, unit="MB/s", form=",.2f", scale=1e-6),
        )
        for way in ("read", "written")
    ),
)


def _staleness_rows(side: Side) -> list[dict[str, Any]]:
    staleness = side.shown.result.staleness
    # Where none is stale there is nothing to see.
    if staleness is None or staleness.max == 0:
        return []
    total = sum(staleness.histogram.values())
    return [
        {"side": side.label, "staleness": int(key), "count": count, "share": count / total}
        for key, count in staleness.histogram.items()
    ]


def _part_rows(side: Side) -> list[dict[str, Any]]:
    result = side.shown.result
    parts = all_parts(result)
    steps = sum(worker.worker_steps for worker in result.workers if worker.name in parts)
    if not steps:
        return []
    spent = {key: sum(getattr(each, key) for each in parts.values()) for key in _PARTS}
    return [
        {"side": side.label, "part": _PARTS[key][0], "ms": 1e3 * seconds / steps}
        for key, seconds in spent.items()
        if seconds > 0
    ]
