"""The runs of a study: a TOML file that says which fields are varied, and how far.

A file has `title`, `after` (whose reports it follows, as `reports.py` names them), `reports` (what
of them is reproduced, and what they leave open), `[claims]` (what they said, by key), `[common]`
(fields of every run), `[quick]` and `[full]` (`says`: what the variant runs; `set`: fields), and
`[[runs]]`, each with

- `group`: by which tables, figures and claims find the runs,
- `each`: fields and the values each of them takes; every combination is a run,
- `set`: further fields, and `seeds`: how many seeds (1),
- `quick`, `full`: the same again for one variant, or `skip = true`,
- `needs`: a cluster without which the runs say nothing, where others fall back to `local`.

Fields are written with dots, as on the command line. A later one stands over an earlier one.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, Self, final

from paceline.errors import Problem, SpecError
from paceline.settings import Fields, flat, merged, nested
from paceline.studies.reports import REPORTS, Report

Variant = Literal["quick", "full"]


@final
@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of a study, before it is known whether it can be carried out here."""

    name: str
    group: str
    tags: Fields
    """What tells it from others of its group: strategy, num_workers, batch, …"""
    repetition: int
    """Which of its seeds it has, counted from 0."""
    fields: Fields
    """Everything that is not the workload's own choice, by dotted names."""
    needs: str | None = None

    def table(self, over: Fields | None = None) -> dict[str, Any]:
        """Give the spec as nested tables."""
        return nested(merged(self.fields, over or {}))


@final
@dataclass(frozen=True, kw_only=True)
class Grid:
    """What a study's file says."""

    name: str
    title: str
    reports: str
    after: tuple[Report, ...]
    claims: Mapping[str, str]
    common: Fields
    variants: Mapping[str, Mapping[str, Any]]
    blocks: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, name: str) -> Self:
        """Read the file of a study that ships with us."""
        text = (
            resources.files("paceline.studies").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        )
        return cls.parse(name, text)

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Read a study from the text of its file."""
        table = tomllib.loads(text)
        return cls(
            name=name,
            title=table["title"],
            reports=table["reports"],
            after=tuple(REPORTS[each] for each in table.get("after", ())),
            claims=table["claims"],
            common=flat(table.get("common", {})),
            variants={each: table[each] for each in ("quick", "full") if each in table},
            blocks=tuple(table.get("runs", ())),
        )

    def says(self, variant: Variant) -> str:
        """Say in words which subset a variant runs."""
        return str(self.variants.get(variant, {}).get("says", ""))

    def refuse_varied(self, over: Fields) -> None:
        """See that nothing is set that is varied: rows that say otherwise would be of one value."""
        varied = {"seed", *(field for block in self.blocks for field in _varied_by(block))}
        problems = [
            Problem(field, value, "this study varies it; its tables and claims are by its values")
            for field, value in over.items()
            if field in varied
        ]
        if problems:
            raise SpecError(problems)

    def plan(self, variant: Variant, over: Fields | None = None) -> list[PlannedRun]:
        """Lay out the runs in the order in which they are carried out.

        Every first repetition comes before any second one, and each round goes through the runs
        in the other direction, so that a machine that slows down favours none of them.
        """
        runs = [each for block in self.blocks for each in self._expand(block, variant, over or {})]
        rounds = sorted({each.repetition for each in runs})
        ordered: list[PlannedRun] = []
        for number in rounds:
            of_round = [each for each in runs if each.repetition == number]
            ordered += of_round[::-1] if number % 2 else of_round
        return ordered

    def _expand(
        self, block: Mapping[str, Any], variant: Variant, over: Fields
    ) -> Iterator[PlannedRun]:
        own = block.get(variant, {})
        if own.get("skip"):
            return
        general = self.variants.get(variant, {}).get("set", {})
        fixed = merged(self.common, flat(general), flat(block.get("set", {})))
        fixed = merged(fixed, flat(own.get("set", {})))
        each = flat(block.get("each", {})) | flat(own.get("each", {}))
        num_seeds = own.get("seeds", block.get("seeds", 1))
        for values in itertools.product(*each.values()):
            varied = dict(zip(each, values, strict=True))
            tags = {_tag(field): value for field, value in varied.items()}
            for repetition in range(num_seeds):
                fields = merged(fixed, varied, {"seed": repetition}, over)
                yield PlannedRun(
                    name="-".join([block["group"], *map(_word, tags.values()), f"{repetition}"]),
                    group=block["group"],
                    tags=tags,
                    repetition=repetition,
                    fields=fields,
                    needs=block.get("needs"),
                )


def _varied_by(block: Mapping[str, Any]) -> Iterator[str]:
    for each in (block, block.get("quick", {}), block.get("full", {})):
        yield from flat(each.get("each", {}))


def _tag(field: str) -> str:
    """Name a field shortly: `strategy` for strategy.name, `lr` for optimizer.lr."""
    part, _, last = field.rpartition(".")
    return part.rpartition(".")[2] if last == "name" else last


def _word(value: object) -> str:
    return str(value).replace("/", "-").replace(":", "-")
