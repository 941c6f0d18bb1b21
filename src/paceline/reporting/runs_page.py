"""The page about runs: what is on it, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.exhibits.background import background
from paceline.exhibits.values import Exhibit, Page, Section
from paceline.reporting import node_tables, tables
from paceline.reporting.conclusion import conclude, enumerated, rankings_of
from paceline.reporting.figures import Gallery
from paceline.reporting.level import groups_of
from paceline.reporting.sides import Side, short, sides_of
from paceline.store.stored import StoredRun, labels_of


def page_of(
    runs: Sequence[StoredRun],
    *,
    title: str | None = None,
    notes: Sequence[str] = (),
    beside: Sequence[Exhibit] = (),
) -> Page:
    """Make the page about some runs.

    `notes`, and what is shown `beside` them, say how the runs came about: what was tuned or varied.
    """
    sides = sides_of(runs)
    groups = groups_of(sides)
    rankings = rankings_of(sides)
    labels = labels_of(runs)
    gallery = Gallery(sides, groups, labels)
    sections = (
        Section(title="Results", items=(tables.comparison(sides, groups, labels),)),
        _section("How these runs were made", notes, *beside),
        _section("Learning", (), *gallery.loss(), *gallery.metrics()),
        _section("Speed", (), gallery.speed(), gallery.speed_up(), *gallery.times()),
        _nodes(sides, gallery),
        _section("Where the time goes", (), gallery.staleness(), gallery.parts()),
        _section("What limited each side", (), tables.verdicts(sides)),
        _section("Warnings", _warnings(sides)),
        _background(sides),
    )
    return Page(
        title=title or _title(sides),
        subtitle=_subtitle(sides),
        conclusion=conclude(sides, rankings),
        ranking=tuple(place for each in rankings for place in each.table()),
        labels=labels,
        sections=tuple(each for each in sections if each.items or each.text),
    )


def _section(title: str, text: Iterable[str], *items: Exhibit | None) -> Section:
    return Section(
        title=title, text=tuple(text), items=tuple(item for item in items if item is not None)
    )


def _nodes(sides: Sequence[Side], gallery: Gallery) -> Section:
    figures = gallery.usage()
    text = []
    if not any(figure.name.startswith("network") for figure in figures):
        clusters = enumerated(sorted({short(side.shown.result.cluster) for side in sides}))
        exchanged = gallery.exchanged()
        figures += [exchanged] if exchanged else []
        instead = " What workers exchanged is shown instead, as they counted it."
        nodes = (node for side in sides for run in side.runs for node in run.result.nodes)
        why = (
            "nothing was sent, or too little time for samples"
            if any(node.link_bits_per_s for node in nodes)
            else f"nodes of {clusters} have no link"
        )
        text.append(f"There is no network over time: {why}.{instead if exchanged else ''}")
    made = (node_tables.nodes, node_tables.traffic, node_tables.pairs, node_tables.processes)
    shown = (table(sides, gallery.labels) for table in made)
    return _section("What each node used", text, *figures, *shown)


def _background(sides: Sequence[Side]) -> Section:
    """For who asks: every run, the specs, the machine."""
    named = {side.label: side.shown for side in sides}
    items = (tables.every_run(sides), tables.settings(sides), *background(named))
    return _section("Runs, specs and machine", (), *items)


def _title(sides: Sequence[Side]) -> str:
    workloads = dict.fromkeys(short(side.shown.result.workload) for side in sides)
    names = list(dict.fromkeys(side.strategy for side in sides))
    return f"{enumerated(list(workloads))}: {enumerated(names)}"


def _subtitle(sides: Sequence[Side]) -> str:
    results = [run.result for side in sides for run in side.runs]
    workers = sorted({each.num_workers for each in results})
    batches = sorted({each.batch_size for each in results})
    data = list(dict.fromkeys(each.data for each in results if each.data))
    clusters = list(dict.fromkeys(short(each.cluster) for each in results))
    parts = [
        f"{enumerated([str(each) for each in workers])} worker{'s' if workers[-1] > 1 else ''}",
        f"batch {enumerated([str(each) for each in batches])}",
        *data[:2],
        f"cluster {enumerated(clusters)}",
        f"{len(results)} run{'s' if len(results) > 1 else ''}",
    ]
    return " · ".join(parts)


def _warnings(sides: Sequence[Side]) -> list[str]:
    told = []
    for side in sides:
        for run in side.runs:
            told += [f"{side.label}: {warning}." for warning in run.result.warnings]
            stolen_s, train_s = run.result.steal_s or 0.0, run.result.train_s or 0.0
            if stolen_s > 0.1 * train_s > 0:
                told.append(
                    f"{side.label}: the hypervisor took {stolen_s:.1f} s of CPU "
                    f"time during {train_s:.1f} s of training."
                )
    return list(dict.fromkeys(told))
