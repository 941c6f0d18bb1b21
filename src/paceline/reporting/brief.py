"""A page in brief, as a notebook shows it: the conclusion and the first table."""

from __future__ import annotations

from html import escape

from paceline.exhibits.values import Page, Table


def brief_html(page: Page) -> str:
    """Write the title, the conclusion and the first table as HTML."""
    sentences = "".join(f"<p>{escape(each)}</p>" for each in page.conclusion)
    table = "".join(map(table_html, page.tables[:1]))
    return f"<h4>{escape(page.title)}</h4>{sentences}{table}"


def table_html(table: Table) -> str:
    """Write a table as HTML; whatever stands in a cell is text."""
    heads = "".join(f"<th>{escape(each)}</th>" for each in table.headers)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in cells) for cells in table.cells())
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
