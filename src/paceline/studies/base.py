"""What a study is: a grid of runs, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from paceline.errors import StoreError
from paceline.exhibits.background import background
from paceline.exhibits.values import (
    Claim,
    Exhibit,
    Figure,
    Judgement,
    Listing,
    Page,
    Section,
    Table,
)
from paceline.settings import Fields
from paceline.store.stored import labels_of
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.grid import Grid, Variant

# What keeps one table, figure or claim from being made, and no other: a run that is not there, or
# one whose rows cannot be read.
_NOT_TOLD: Final = (Untestable, StoreError)


@final
@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was measured, and whether it bears out what a report said."""

    measured: str
    judgement: Judgement
    reason: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Study:
    """Tables, figures and claims, each a function of the runs."""

    tables: Mapping[str, Callable[[Evidence], Table]]
    figures: Mapping[str, Callable[[Evidence], Figure]]
    claims: Mapping[str, Callable[[Evidence], Judged]]
    conditions: Mapping[str, Callable[[Evidence], str]] = field(default_factory=dict)
    """Where reports contradict each other: under which condition each is right."""
    conditions_title: str = "Where the reports contradict each other"


def judged(holds: bool, measured: str, reason: str = "") -> Judged:
    """Judge a claim that could be tested."""
    return Judged(
        measured=measured,
        judgement="holds" if holds else "does not hold here",
        reason=reason,
    )


def page_of(
    study: Study, grid: Grid, variant: Variant, evidence: Evidence, fields: Fields | None = None
) -> Page:
    """Put together what a study shows: the claims first, then its tables and figures.

    `fields` were set in every run, and so stand over what the study says of itself.
    """
    changed = "".join(f"; but {field} = {value}" for field, value in (fields or {}).items())
    claims = claims_of(study, grid, evidence)
    return Page(
        title=f"{grid.name}: {grid.title}",
        subtitle=f"{grid.reports}; --{variant}: {grid.says(variant)}{changed}",
        conclusion=tuple(_conclusion(claims, evidence)),
        labels=labels_of(evidence.all_runs),
        sections=(
            Section(title="Claims", items=tuple(claims)),
            *_reports(grid),
            *_conditions(study, evidence),
            Section(title="Tables", items=_made(study.tables, evidence)),
            *_figures(study, evidence),
            Section(title="Runs", items=(_runs(evidence),), folded=True),
            Section(title="Specs and machine", items=background(evidence.runs), folded=True),
        ),
    )


def _figures(study: Study, evidence: Evidence) -> list[Section]:
    made = _made(study.figures, evidence)
    return [Section(title="Figures", items=made)] if made else []


def _reports(grid: Grid) -> list[Section]:
    """Say whose reports the claims are from."""
    cited = tuple(f"{_capital(each.short)}: {each.full}." for each in grid.after)
    return [Section(title="The reports", text=cited)] if cited else []


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _conditions(study: Study, evidence: Evidence) -> list[Section]:
    """Say where the reports contradict each other, and when each is right, or what they ask."""
    said = []
    for keys, tell in study.conditions.items():
        try:
            said.append(f"{keys}: {tell(evidence)}")
        except _NOT_TOLD as error:
            said.append(f"{keys}: cannot be decided here: {error}.")
    return [Section(title=study.conditions_title, text=tuple(said))] if said else []


def claims_of(study: Study, grid: Grid, evidence: Evidence) -> list[Claim]:
    """Judge every claim."""
    return [_claim(key, grid.claims[key], judge, evidence) for key, judge in study.claims.items()]


def _claim(key: str, said: str, judge: Callable[[Evidence], Judged], evidence: Evidence) -> Claim:
    try:
        found = judge(evidence)
    except _NOT_TOLD as error:
        return Claim(
            key=key,
            said=said,
            measured="-",
            judgement="cannot be tested here",
            reason=str(error),
        )
    return Claim(
        key=key,
        said=said,
        measured=found.measured,
        judgement=found.judgement,
        reason=found.reason,
    )


def _made(
    makers: Mapping[str, Callable[[Evidence], Exhibit]], evidence: Evidence
) -> tuple[Exhibit, ...]:
    return tuple(_exhibit(name, make, evidence) for name, make in makers.items())


def _exhibit(name: str, make: Callable[[Evidence], Exhibit], evidence: Evidence) -> Exhibit:
    """Make a table or figure; one that lacks its runs says so in its place."""
    try:
        return make(evidence)
    except _NOT_TOLD as error:
        return Listing(name=name, title=name, text=f"cannot be shown here: {error}")


def _conclusion(claims: list[Claim], evidence: Evidence) -> list[str]:
    by_judgement: dict[str, list[str]] = {}
    for claim in claims:
        by_judgement.setdefault(claim.judgement, []).append(claim.key)
    said = _so_far(evidence)
    said += [
        f"{len(by_judgement[judgement])} of {len(claims)} claims {verb}: "
        f"{', '.join(by_judgement[judgement])}."
        for judgement, verb in (
            ("holds", "hold"),
            ("does not hold here", "do not hold here"),
            ("cannot be tested here", "cannot be tested here"),
        )
        if judgement in by_judgement
    ]
    limited = sum(run.result.host_limited for run in evidence.all_runs)
    if limited:
        said.append(
            f"This machine could not keep up in {limited} of {len(evidence.all_runs)} runs: their "
            "times, and claims about times, describe this machine only."
        )
    failed = [f"{name}: {reason}" for name, reason in evidence.missing.items()]
    if failed:
        are = "run is" if len(failed) == 1 else "runs are"
        said.append(f"{len(failed)} {are} missing; the first is {failed[0]}")
    return [*said, *(f"{note}." for note in evidence.notes)]


def _so_far(evidence: Evidence) -> list[str]:
    """Say how far a study is that was stopped, or still goes on."""
    there = sum(each.name in evidence.runs for each in evidence.plans)
    if there >= evidence.num_planned:
        return []
    told = f"The study is not finished: {there} of {evidence.num_planned} runs so far."
    return [f"{told} Everything below is from these; the same command continues with the others."]


def _runs(evidence: Evidence) -> Listing:
    lines = [
        f"{each.name}: {run.folder.path}"
        if run
        else f"{each.name}: {evidence.missing.get(each.name, 'not carried out yet')}"
        for each in evidence.plans
        for run in [evidence.runs.get(each.name)]
    ]
    return Listing(name="runs", title="Runs", text="\n".join(lines))
