"""What a report shows: tables, figures and claims, each a value that knows how it is read.

A study or a comparison makes exhibits out of runs; `paceline.reporting` writes them as a page and
as files. A figure is drawn from a table, so whoever reads it can have its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, final

import polars

if TYPE_CHECKING:
    import altair

Judgement = Literal["holds", "does not hold here", "cannot be tested here"]

MISSING: Final = "-"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")


@final
@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of a frame is headed and written."""

    name: str
    """As the frame has it."""
    label: str
    unit: str = ""
    form: str = ""
    """As `format` takes it, for example `,.1f`; text needs none."""
    scale: float = 1.0
    """By what a number is multiplied to be in `unit`: 100 for per cent of a share, 1e-6 for MB."""
    published: bool = False
    """Whether the values are a report's own, shown beside ours and never mixed with them."""
    spread: str = ""
    """The frame's column with half the range over repetitions, which is shown behind ±."""

    @property
    def header(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def is_number(self) -> bool:
        return bool(self.form)

    def text(self, value: object) -> str:
        """Write one value; what is not known is a dash."""
        if value is None or value != value:  # noqa: PLR0124 - only what is no number differs
            return MISSING
        if not self.form or isinstance(value, str):
            return str(value)
        number = _number(value)
        return format(number if self.scale == 1.0 else number * self.scale, self.form)

    def cell(self, row: dict[str, Any]) -> str:
        """Write its value of a row, with its spread."""
        text = self.text(row[self.name])
        spread = row[self.spread] if self.spread else None
        return text if spread is None or text == MISSING else f"{text} ± {self.text(spread)}"


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: a typed frame, and how its columns are read."""

    name: str
    """The name of its files: small letters, digits, dots and hyphens."""
    title: str
    frame: polars.DataFrame
    columns: tuple[Column, ...]
    note: str = ""
    """What stands below it: how it was measured, what a dash means."""
    labels: tuple[str, ...] = ()
    """What a reader must know of every number in it, such as `replayed compute`."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        wanted = [name for each in self.columns for name in (each.name, each.spread) if name]
        missing = [name for name in wanted if name not in self.frame.columns]
        assert not missing, f"{self.name}: no such columns: {missing}"

    @property
    def headers(self) -> list[str]:
        return [column.header for column in self.columns]

    def cells(self) -> Iterator[list[str]]:
        """Yield each row as text."""
        for row in self.frame.iter_rows(named=True):
            yield [column.cell(row) for column in self.columns]


@final
@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: a table and how it is drawn."""

    name: str
    title: str
    caption: str = ""
    """What it shows, in a sentence or two, for who does not see it."""
    table: Table
    """What is drawn."""
    draw: Callable[[polars.DataFrame], altair.TopLevelMixin]
    """Makes a chart of the table's frame; called where pictures are made, not before."""
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)

    def spec(self) -> dict[str, Any]:
        """Give the chart as Vega-Lite, with its data, title and labels.

        Altair would check every part of it against its schema, most of them more than once, which
        takes longer than all else here. Tests do that, for every kind of chart.
        """
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            spec: dict[str, Any] = self.draw(self.table.frame).to_dict(validate=False)
        title = {"text": self.title, "subtitle": list(self.labels)}
        return spec | {"title": title, "description": f"{self.title}. {self.caption}"}

    def svg(self) -> str:
        """Draw it, as a picture for any page."""
        from paceline.exhibits.pictures import svg_of

        return svg_of(self.spec())

    def _repr_svg_(self) -> str:
        return self.svg()


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a report said, what was measured here, and whether the one bears out the other."""

    key: str
    """For example L4."""
    said: str
    measured: str
    """In words, with figures; what stands in the way where it cannot be tested."""
    judgement: Judgement
    reason: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Listing:
    """A text shown as it is: a spec, a command, what a machine is."""

    name: str
    title: str
    text: str

    def __post_init__(self) -> None:
        _check_name(self.name)


Exhibit = Table | Figure | Claim | Listing


@final
@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page: what is said, then what is shown."""

    title: str
    text: tuple[str, ...] = ()
    """Paragraphs."""
    items: tuple[Exhibit, ...] = ()
    folded: bool = False
    """Whether it is shown closed: for who asks, not for who reads."""


@final
@dataclass(frozen=True, kw_only=True)
class Page:
    """All that is shown, the conclusion first."""

    title: str
    subtitle: str = ""
    conclusion: tuple[str, ...] = ()
    """Sentences, the most important first."""
    ranking: tuple[Mapping[str, Any], ...] = ()
    """What the sentences rest on, side by side, for programs."""
    labels: tuple[str, ...] = ()
    """What holds for everything on it: `real compute`, `replayed compute`, `dilated 20 times`."""
    sections: tuple[Section, ...] = ()

    @property
    def items(self) -> tuple[Exhibit, ...]:
        return tuple(item for section in self.sections for item in section.items)

    @property
    def tables(self) -> list[Table]:
        return [item for item in self.items if isinstance(item, Table)]

    @property
    def figures(self) -> list[Figure]:
        return [item for item in self.items if isinstance(item, Figure)]

    @property
    def frames(self) -> dict[str, polars.DataFrame]:
        """The numbers of the tables, by their names."""
        return {table.name: table.frame for table in self.tables}

    @property
    def charts(self) -> dict[str, Figure]:
        """The figures, by their names."""
        return {figure.name: figure for figure in self.figures}

    @property
    def claims(self) -> list[Claim]:
        return [item for item in self.items if isinstance(item, Claim)]


def claims_table(claims: Iterable[Claim], labels: tuple[str, ...] = ()) -> Table:
    """Put claims into a table, so that they can be handed in as one."""
    fields = ("key", "said", "measured", "judgement", "reason")
    rows = [{field: getattr(claim, field) for field in fields} for claim in claims]
    columns = [Column(name=field, label=field) for field in fields]
    return table_of("claims", "Claims", rows, columns, labels=labels)


def labelled(page: Page) -> Page:
    """Give every table and figure the page's labels, unless it has its own."""
    sections = tuple(
        replace(section, items=tuple(_labelled(item, page.labels) for item in section.items))
        for section in page.sections
    )
    return replace(page, sections=sections)


def _labelled(item: Exhibit, labels: tuple[str, ...]) -> Exhibit:
    if isinstance(item, Table):
        return replace(item, labels=item.labels or labels)
    if isinstance(item, Figure):
        own = item.labels or labels
        return replace(item, table=replace(item.table, labels=item.table.labels or own), labels=own)
    return item


def table_of(
    name: str,
    title: str,
    rows: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    *,
    note: str = "",
    labels: tuple[str, ...] = (),
) -> Table:
    """Make a table of plain rows; columns of which nothing is known have type Null."""
    names = [name for column in columns for name in (column.name, column.spread) if name]
    frame = polars.DataFrame(
        [{name: row.get(name) for name in names} for row in rows],
        schema=names if not rows else None,
        infer_schema_length=None,
        strict=False,
    )
    return Table(
        name=name, title=title, frame=frame, columns=tuple(columns), note=note, labels=labels
    )


def _number(value: object) -> float:
    assert isinstance(value, (int, float)), f"not a number: {value!r}"
    return value


def _check_name(name: str) -> None:
    assert _NAME.fullmatch(name), f"not a file's name: {name!r}"
