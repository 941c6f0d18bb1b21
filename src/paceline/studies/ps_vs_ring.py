"""`ps-vs-ring`: the tables and figures of Shi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars

from paceline.exhibits import drawing
from paceline.exhibits.palette import COLOURS
from paceline.exhibits.values import Column, Figure, Table
from paceline.store import curves
from paceline.store.stored import StoredRun
from paceline.studies import charts, ring_claims
from paceline.studies.base import Study
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import median, of
from paceline.studies.ring_arithmetic import MIB, NETWORKS, ideal_step_s, link_of
from paceline.studies.ring_claims import model_bytes, server_node
from paceline.studies.ring_links import RING_BY_LINK, SPEED_UP_LINKS, ring_by_link, speed_up_links
from paceline.studies.ring_spread import SPREAD

# Shi, table 3.1, beside the sizes: top-1 %, top-5 %, GFLOPs.
TABLE_3_1: Final = {
    "alexnet-cifar10": (57.0, 80.3, 0.7),
    "vgg16-cifar10": (70.5, 90.0, 15.5),
    "vgg19-cifar10": (71.3, 92.7, 19.6),
    "resnet50-cifar10": (75.8, 92.9, 3.9),
    "resnet152-cifar10": (77.6, 93.8, 11.3),
}
WORKERS: Final = Column(name="num_workers", label="workers", form="d")
RATE: Final = Column(name="images_per_s", label="images per second", form=",.1f")
SPEED_UP: Final = Column(name="speed_up", label="speed-up over one worker alone", form=".2f")
_NUM_RING: Final = 3


def models(evidence: Evidence) -> Table:
    """Sizes of the models, beside Shi's."""
    rows, shown = [], []
    for workload, (top1, top5, gflops) in TABLE_3_1.items():
        runs = [
            run for run in evidence.find("ring", workload=workload) if run.result.num_workers > 1
        ]
        shown += runs[:1]
        ours = model_bytes(runs[0]) if runs else None
        rows.append(
            {
                "model": NETWORKS[workload].label,
                "ours": None if ours is None else ours / MIB,
                "size": NETWORKS[workload].size_mib,
                "top1": top1,
                "top5": top5,
                "gflops": gflops,
            }
        )
    if not shown:
        raise evidence.lacking("ring")
    columns = [
        Column(name="model", label="model"),
        Column(name="ours", label="gradients, here", unit="MiB", form=",.1f"),
        Column(name="size", label="size, Shi", unit="MB", form=",d", published=True),
        Column(name="top1", label="top-1, Shi", unit="%", form=".1f", published=True),
        Column(name="top5", label="top-5, Shi", unit="%", form=".1f", published=True),
        Column(name="gflops", label="GFLOPs, Shi", form=".1f", published=True),
    ]
    note = "1,000 classes, 224 x 224 pixels. A dash: not in this variant of the study."
    title = "The models (Shi, table 3.1)"
    return charts.side_by_side("table-3.1", title, rows, columns, note=note, runs=shown)


def expected(evidence: Evidence) -> Table:
    """Measured steps beside the closed form."""
    rows, shown = [], []
    for group in ("ps", SPREAD, "ring", "links"):
        for run in evidence.find(group):
            ideal = ideal_step_s(run)
            steps = run.result.worker_steps / run.result.num_workers
            if ideal is None or not run.result.train_s or not steps:
                continue
            shown.append(run)
            rows.append(
                {
                    "model": NETWORKS[run.result.workload].label,
                    "strategy": run.result.strategy,
                    "servers": len(run.result.servers),
                    "workers": run.result.num_workers,
                    "link": _link(run),
                    "step_s": run.result.train_s / steps,
                    "ideal_s": ideal,
                }
            )
    if not rows:
        raise evidence.lacking("ring")
    columns = [
        Column(name="model", label="model"),
        Column(name="strategy", label="strategy"),
        Column(name="servers", label="servers", form="d"),
        Column(name="workers", label="workers", form="d"),
        Column(name="link", label="link", unit="Gbit/s", form=".0f"),
        Column(name="step_s", label="a step, here", unit="s", form=".3f"),
        Column(name="ideal_s", label="by the closed form", unit="s", form=".3f"),
    ]
    note = (
        "A ring's exchange hides behind back-propagation, layer by layer. So does a server's, "
        "chunk by chunk; with `strategy.overlap=false`, and in runs of versions without that "
        "field, it follows the computing. `ps-async`: workers in step with each other; with "
        "`strategy.refuse=whole` answers come when all of a push is in, and hide only behind the "
        "next forward pass."
    )
    title = "A step, and the closed form"
    return charts.side_by_side("closed-form", title, rows, columns, note=note, runs=shown)


def rates(name: str, number: str, group: str, evidence: Evidence) -> Figure:
    """Images per second over workers."""
    title = f"Images per second over workers, {_kind(group)} (Shi, fig. {number})"
    return _over_workers(name, title, group, RATE, evidence)


def speed_ups(name: str, number: str, group: str, evidence: Evidence) -> Figure:
    """Speed-up over one worker alone, which exchanges nothing: the same for server and ring."""
    title = f"Speed-up over workers, {_kind(group)} (Shi, fig. {number})"
    return _over_workers(name, title, group, SPEED_UP, evidence)


def used(name: str, numbers: str, group: str, measure: str, evidence: Evidence) -> Figure:
    """CPU or packets of every node over time, for 2, 4 and 6 workers."""
    tags = {"strategy": ring_claims.SYNC} if group == "ps" else {}
    runs = {}
    for workload in evidence.values(group, "workload", **tags)[:1]:
        for count in (2, 4, 6):
            found = evidence.find(group, workload=workload, num_workers=count, **tags)
            if found:
                runs[f"{NETWORKS[workload].label}, {count} workers"] = found[0]
    if not runs:
        raise evidence.lacking(group)
    what = charts.MEASURES[measure].label
    title = (
        f"{what[0].upper()}{what[1:]} of every node over time, {_kind(group)} (Shi, fig. {numbers})"
    )
    return charts.usage(name, title, runs, measure)


def one_time_line(evidence: Evidence) -> Figure:
    """The server's traffic of the three set-ups on one time line (5.1), all synchronous."""
    frames, runs = [], {}
    tags = {"strategy": ring_claims.SYNC}
    for workload in evidence.values("ps", "workload", **tags)[:1]:
        for count in (2, 4, 6):
            for run in evidence.find("ps", workload=workload, num_workers=count, **tags)[:1]:
                label = f"{count} workers"
                runs[label] = run
                rows = curves.usage(run).filter(polars.col("node") == server_node(run))
                if "packets_received_per_s" not in rows.columns:
                    raise Untestable("packets of nodes were not recorded in these runs")
                kept = rows.select("time_s", "packets_received_per_s")
                frames.append(kept.with_columns(polars.lit(label).alias("run")))
    if not frames:
        raise evidence.lacking("ps", **tags)
    y = charts.MEASURES["packets_received_per_s"]
    by = charts.strategies(runs)
    return charts.figure(
        "one-time-line",
        "Packets that the server receives, 2, 4 and 6 workers, `ps-sync` (Shi, fig. 5.1)",
        charts.appended(frames),
        [Column(name="run", label="run"), charts.TIME, y],
        lambda frame: drawing.lines(frame, charts.TIME, y, by="run", strategies=by, zero=True),
        runs=runs,
    )


def worked_through(evidence: Evidence) -> Figure:
    """The ring with three workers and three chunks, step by step (2.7)."""
    del evidence
    rows = ring_by_hand(_NUM_RING)
    columns = [
        Column(name="step", label="step"),
        Column(name="worker", label="worker"),
        Column(name="chunk", label="chunk", form="d"),
        Column(name="holds", label="holds the sum of"),
    ]
    return charts.figure(
        "ring-by-hand",
        "Ring all-reduce, three workers and three chunks (Shi, fig. 2.7)",
        polars.DataFrame(rows),
        columns,
        _draw_ring,
        caption="Each worker's chunks after every step: whose gradients are added up in them.",
        labels=("worked through, not measured",),
    )


def ring_by_hand(num_workers: int) -> list[dict[str, Any]]:
    """Carry a ring all-reduce out on sets: which gradients each chunk holds after each step."""
    held = [[{worker} for _ in range(num_workers)] for worker in range(num_workers)]
    rows: list[dict[str, Any]] = []

    def note(step: str) -> None:
        for worker, chunks in enumerate(held):
            for chunk, whose in enumerate(chunks):
                names = "+".join("abcdefgh"[each] for each in sorted(whose))
                rows.append(
                    {"step": step, "worker": f"worker {worker}", "chunk": chunk, "holds": names}
                )

    note("0 start")
    for number in range(2 * (num_workers - 1)):
        is_reduce = number < num_workers - 1
        moves = []
        for worker in range(num_workers):
            chunk = (worker - number) % num_workers
            moves.append(((worker + 1) % num_workers, chunk, set(held[worker][chunk])))
        for target, chunk, whose in moves:
            held[target][chunk] = held[target][chunk] | whose if is_reduce else whose
        kind = "scatter-reduce" if is_reduce else "all-gather"
        note(f"{number + 1} {kind}")
    return rows


def _draw_ring(frame: polars.DataFrame) -> Any:
    import altair as alt

    size = frame["chunk"].n_unique()
    rows = frame.with_columns(full=polars.col("holds").str.len_chars() == 2 * size - 1)
    data = alt.InlineData(values=rows.to_dicts())
    base = alt.Chart().encode(
        x=alt.X("chunk:O", title="chunk", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("worker:N", title=None),
    )
    colours = alt.Scale(domain=[False, True], range=["#8c8c8c", COLOURS["ring"]])
    cells = base.mark_rect(opacity=0.3).encode(
        color=alt.Color("full:N", scale=colours, legend=None)
    )
    text = base.mark_text(color="currentColor").encode(text="holds:N")
    return drawing.styled(
        alt.layer(cells, text, data=data)
        .properties(width=180, height=110)
        .facet(facet=alt.Facet("step:N", title=None), columns=3)
    )


def _over_workers(name: str, title: str, group: str, column: Column, evidence: Evidence) -> Figure:
    rows, shown, by = [], {}, {}
    modes = evidence.values(group, "strategy") if group == "ps" else [None]
    for workload in evidence.values(group, "workload"):
        for mode in modes:
            tags = {"workload": workload} | ({"strategy": mode} if mode else {})
            label = NETWORKS[workload].label + (f", {mode}" if len(modes) > 1 else "")
            alone = _rate(evidence, "ring", {"workload": workload, "num_workers": 1})
            for count in evidence.values(group, "num_workers"):
                rate = _rate(evidence, group, {**tags, "num_workers": count})
                if rate is None or (column is SPEED_UP and alone is None):
                    continue
                value = rate if column is RATE else rate / (alone or 1.0)
                rows.append(
                    {"run": label, "num_workers": count, column.name: value, "ideal": float(count)}
                )
                shown[f"{label} {count}"] = evidence.first(group, **tags, num_workers=count)
                by[label] = workload
    if not rows:
        raise evidence.lacking(group)
    ideal = Column(name="ideal", label="ideal", form=".0f") if column is SPEED_UP else None
    return charts.over(name, title, rows, WORKERS, column, by=by, rule=ideal, runs=shown)


def _rate(evidence: Evidence, group: str, tags: dict[str, Any]) -> float | None:
    found = of(evidence.find(group, **tags), lambda run: run.result.samples_per_s)
    return median(found) if found else None


def _link(run: StoredRun) -> float | None:
    link = link_of(run)
    return None if link is None else link.bits_per_s / 1e9


def _kind(group: str) -> str:
    return "parameter server" if group == "ps" else "ring"


def _used(name: str, numbers: str, group: str, measure: str) -> Callable[[Evidence], Figure]:
    return lambda evidence: used(name, numbers, group, measure, evidence)


STUDY: Final = Study(
    tables={"table-3.1": models, "closed-form": expected, RING_BY_LINK: ring_by_link},
    figures={
        "images-ps": lambda evidence: rates("images-ps", "4.1", "ps", evidence),
        "images-ring": lambda evidence: rates("images-ring", "4.2", "ring", evidence),
        "speed-up-ps": lambda evidence: speed_ups("speed-up-ps", "4.3", "ps", evidence),
        "speed-up-spread": lambda evidence: _over_workers(
            "speed-up-spread",
            "Speed-up over workers, parameter server with a server beside every worker",
            SPREAD,
            SPEED_UP,
            evidence,
        ),
        "speed-up-ring": lambda evidence: speed_ups("speed-up-ring", "4.4", "ring", evidence),
        SPEED_UP_LINKS: speed_up_links,
        "cpu-ps": _used("cpu-ps", "4.5-4.7", "ps", "cpu_percent"),
        "packets-received-ps": _used(
            "packets-received-ps", "4.8-4.10", "ps", "packets_received_per_s"
        ),
        "packets-sent-ps": _used("packets-sent-ps", "4.11-4.13", "ps", "packets_sent_per_s"),
        "cpu-ring": _used("cpu-ring", "4.14-4.16", "ring", "cpu_percent"),
        "packets-received-ring": _used(
            "packets-received-ring", "4.17-4.19", "ring", "packets_received_per_s"
        ),
        "packets-sent-ring": _used("packets-sent-ring", "4.20-4.22", "ring", "packets_sent_per_s"),
        "one-time-line": one_time_line,
        "ring-by-hand": worked_through,
    },
    claims=ring_claims.CLAIMS,
    conditions=ring_claims.CONDITIONS,
)
assert set(TABLE_3_1) == set(NETWORKS)
