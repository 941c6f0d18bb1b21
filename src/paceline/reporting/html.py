"""A page as one HTML file that needs nothing else: no network, no file beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib import metadata, resources
from itertools import groupby
from typing import Any, Final

from paceline.exhibits.values import Claim, Column, Exhibit, Figure, Listing, Page, Section, Table

# Nothing may be fetched: a page with somebody's numbers tells nobody that it is read.
_POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'"
)
_SIGNS: Final = {
    "holds": ("holds", "✓"),
    "does not hold here": ("fails", "✗"),
    "cannot be tested here": ("open", "?"),
}
# A longer listing is shown closed.
_LONG_TABLE: Final = 30
# A text up to this long is not broken into lines; a longer one gets a column to be read in.
_SHORT: Final = 24
# So does a heading longer than this: it would stand one word to a line.
_SHORT_HEADING: Final = 11
# What stays on one line within a sentence: an option, and a number with its per cent sign.
_WHOLE: Final = re.compile(r"--[a-z][a-z-]*|\d[\d.,]* %")


def html(page: Page, specs: dict[str, dict[str, Any]], scripts: str) -> str:
    """Write a page; `specs` are its figures as Vega-Lite by name, `scripts` what draws them."""
    sections = (_section(section, page.labels) for section in page.sections)
    body = "\n".join((_header(page), _conclusion(page), *sections, _footer()))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<link rel="icon" href="data:,">
<style>{_resource("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="specs">{_inlined(json.dumps(specs))}</script>
<script type="module">{_inlined(scripts)}</script>
</body>
</html>
"""


def drawing_script() -> str:
    """Give the script that draws the figures of a page; it expects `vegaEmbed`."""
    return _resource("page.js")


def _resource(name: str) -> str:
    return resources.files("paceline.reporting").joinpath(name).read_text(encoding="utf-8")


def _inlined(text: str) -> str:
    """Make a script safe within a page: nothing in it may look like its end."""
    return re.sub(
        r"</(?=script)|<(?=!--)", lambda found: f"\\u003c{found[0][1:]}", text, flags=re.IGNORECASE
    )


def _header(page: Page) -> str:
    subtitle = f'<p class="subtitle">{escape(page.subtitle)}</p>' if page.subtitle else ""
    return f"<header><h1>{escape(page.title)}</h1>{subtitle}{_labels(page.labels)}</header>"


def _sentence(text: str) -> str:
    """Write a sentence in which no line ends within an option or before a per cent sign."""
    return _WHOLE.sub(r'<span class="whole">\g<0></span>', escape(text))


def _conclusion(page: Page) -> str:
    if not page.conclusion:
        return ""
    first, *others = page.conclusion
    rest = "".join(f"<li>{_sentence(each)}</li>" for each in others)
    more = f"<ul>{rest}</ul>" if rest else ""
    lead = f'<p class="lead">{_sentence(first)}</p>'
    return f'<section class="conclusion" aria-label="Conclusion">{lead}{more}</section>'


def _section(section: Section, labels: Sequence[str]) -> str:
    text = "".join(f"<p>{_sentence(each)}</p>" for each in section.text)
    content = text + "".join(_items(section.items, labels))
    title = escape(section.title)
    if section.folded:
        opener = f"<summary><h2>{title}</h2></summary>"
        return f"<section><details>{opener}{content}</details></section>"
    return f"<section><h2>{title}</h2>{content}</section>"


def _items(items: Sequence[Exhibit], labels: Sequence[str]) -> Iterator[str]:
    """Neighbours of one kind stand together: figures side by side, claims in one table."""
    for kind, group in groupby(items, key=type):
        same: list[Any] = list(group)
        if kind is Figure:
            yield f'<div class="figures">{"".join(map(_figure, same))}</div>'
        elif kind is Claim:
            yield _claims(same, labels)
        else:
            yield from map(_table if kind is Table else _listing, same)


def _figure(figure: Figure) -> str:
    name, title = escape(figure.name), escape(figure.title)
    said = escape(f"{figure.title}. {figure.caption}")
    files = " ".join(
        f'<a href="figures/{name}.{kind}">{kind.upper()}</a>'
        for kind in ("png", "svg", "pdf", "csv")
    )
    return (
        f'<figure id="{name}"><h3>{title}</h3>{_labels(figure.labels)}'
        f'<div class="chart" data-figure="{name}" role="img" aria-label="{said}"></div>'
        f'<figcaption>{escape(figure.caption)} <span class="files">{files}</span></figcaption>'
        "</figure>"
    )


def _table(table: Table) -> str:
    heads = "".join(
        f'<th scope="col"{_heading_class(column)}>{escape(column.label)}{_unit(column.unit)}</th>'
        for column in table.columns
    )
    rows = "".join(f"<tr>{_cells(table, cells)}</tr>" for cells in table.cells())
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    name = escape(table.name)
    files = " ".join(
        f'<a href="tables/{name}.{kind}">{word}</a>'
        for kind, word in (("csv", "CSV"), ("md", "Markdown"), ("tex", "LaTeX"))
    )
    shown = (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'{note}<p class="files">{files}</p>'
    )
    labels = _labels(table.labels)
    if table.frame.height > _LONG_TABLE:
        opener = f"<summary>{escape(table.title)} ({table.frame.height} rows)</summary>"
        return f'<details id="table-{name}">{opener}{labels}{shown}</details>'
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return f'<div class="table" id="table-{name}">{title}{labels}{shown}</div>'


def _cells(table: Table, cells: list[str]) -> str:
    first, *others = zip(table.columns, cells, strict=True)
    heading = f'<th scope="row"{_cell_class(*first)}>{escape(first[1])}</th>'
    return heading + "".join(
        f"<td{_cell_class(column, text)}>{_value(column, text)}</td>" for column, text in others
    )


def _value(column: Column, text: str) -> str:
    """A spread stands behind its value, smaller."""
    value, sign, spread = text.partition(" ± ") if column.spread else (text, "", "")
    return escape(value) + (f' <span class="spread">± {escape(spread)}</span>' if sign else "")


def _cell_class(column: Column, text: str = "") -> str:
    kinds = {
        "number": column.is_number,
        "published": column.published,
        "short": 0 < len(text) <= _SHORT,
        "text": len(text) > _SHORT and not column.is_number,
    }
    return _classes(kinds)


def _heading_class(column: Column) -> str:
    kinds = {
        "number": column.is_number,
        "published": column.published,
        "long": len(f"{column.label} {column.unit}") > _SHORT_HEADING,
    }
    return _classes(kinds)


def _classes(kinds: dict[str, bool]) -> str:
    names = " ".join(name for name, is_so in kinds.items() if is_so)
    return f' class="{names}"' if names else ""


def _unit(unit: str) -> str:
    return f' <span class="unit">{escape(unit)}</span>' if unit else ""


def _claims(claims: Sequence[Claim], labels: Sequence[str]) -> str:
    rows = "".join(map(_claim, claims))
    heads = "".join(f"<th>{head}</th>" for head in ("", "said", "measured here", "judgement"))
    return (
        f"{_labels(labels)}"
        f'<div class="scroll"><table class="claims"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _claim(claim: Claim) -> str:
    kind, sign = _SIGNS[claim.judgement]
    reason = f"<p>{escape(claim.reason)}</p>" if claim.reason else ""
    return (
        f'<tr id="claim-{escape(claim.key)}"><th scope="row">{escape(claim.key)}</th>'
        f"<td>{escape(claim.said)}</td><td>{escape(claim.measured)}</td>"
        f'<td><span class="judgement {kind}">{sign} {escape(claim.judgement)}</span>{reason}</td>'
        "</tr>"
    )


def _listing(listing: Listing) -> str:
    name, title = escape(listing.name), escape(listing.title)
    return (
        f'<details id="{name}"><summary>{title}</summary>'
        f"<pre><code>{escape(listing.text)}</code></pre></details>"
    )


def _labels(labels: Sequence[str]) -> str:
    if not labels:
        return ""
    chips = "".join(f"<li>{escape(label)}</li>" for label in labels)
    return f'<ul class="labels">{chips}</ul>'


def _footer() -> str:
    return f"<footer>Written by Paceline {escape(metadata.version('paceline'))}.</footer>"
