"""Writing a page: one HTML file, and beside it every figure and table as files."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import StoreError
from paceline.exhibits import Figure, Page, Table, claims_table
from paceline.pictures import drawing_processes
from paceline.report import texts
from paceline.report.html import html
from paceline.report.scripts import page_scripts
from paceline.runs import write_atomically

PAGE = "report.html"


def write(page: Page, folder: Path) -> Path:
    """Write a page into a folder; returns the path of the HTML file.

    A report that is there already is written over; other files in the folder are left alone.
    """
    try:
        for name in ("figures", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        path = folder / PAGE
        with drawing_processes(folder / "figures") as draw:
            specs = {figure.name: figure.spec() for figure in page.figures}
            draw(specs)
            _write_texts(page, folder)
            write_atomically(path, html(page, specs, page_scripts()))
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"no report can be written in {folder}: {reason}") from error
    return path


def _write_texts(page: Page, folder: Path) -> None:
    for figure in page.figures:
        _write_data(figure, folder / "figures")
    tables = [*page.tables, *([claims_table(page.claims)] if page.claims else [])]
    for table in tables:
        _write_table(table, folder / "tables")


def _write_data(figure: Figure, folder: Path) -> None:
    """A figure's own numbers, for who wants to draw it otherwise."""
    (folder / f"{figure.name}.csv").write_text(texts.csv(figure.table))


def _write_table(table: Table, folder: Path) -> None:
    for suffix, text in (("csv", texts.csv), ("md", texts.markdown), ("tex", texts.latex)):
        (folder / f"{table.name}.{suffix}").write_text(text(table))
