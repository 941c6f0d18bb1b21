"""Writing a page: one HTML file, and beside it every figure and table as files."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import StoreError
from paceline.exhibits.pictures import Drawer
from paceline.exhibits.values import Figure, Page, Table, claims_table, labelled
from paceline.reporting import texts
from paceline.reporting.html import html
from paceline.reporting.scripts import page_scripts
from paceline.store.whole_files import write_atomically

PAGE = "report.html"


def write(page: Page, folder: Path, drawer: Drawer | None = None) -> Path:
    """Write a page into a folder; returns the path of the HTML file.

    A report that is there already is written over; other files in the folder are left alone. A
    `drawer` that was made before the page was is ready by now; nothing can be drawn with it after.
    """
    if drawer is None:
        with Drawer() as own:
            return write(page, folder, own)
    try:
        for name in ("figures", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        path = folder / PAGE
        _write(labelled(page), path, drawer)
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write a report to {folder}: {reason}") from error
    return path


def _write(page: Page, path: Path, drawer: Drawer) -> None:
    specs = {}
    for figure in page.figures:
        specs[figure.name] = figure.spec()
        drawer.draw(specs[figure.name], path.parent / "figures", figure.name)
    _write_texts(page, path.parent)
    write_atomically(path, html(page, specs, page_scripts()))
    drawer.finish()


def _write_texts(page: Page, folder: Path) -> None:
    for figure in page.figures:
        _write_data(figure, folder / "figures")
    claims = [claims_table(page.claims, page.labels)] if page.claims else []
    for table in (*page.tables, *claims):
        _write_table(table, folder / "tables")


def _write_data(figure: Figure, folder: Path) -> None:
    """A figure's own numbers, for who wants to draw it otherwise."""
    (folder / f"{figure.name}.csv").write_text(texts.csv(figure.table), encoding="utf-8")


def _write_table(table: Table, folder: Path) -> None:
    for suffix, text in (("csv", texts.csv), ("md", texts.markdown), ("tex", texts.latex)):
        (folder / f"{table.name}.{suffix}").write_text(text(table), encoding="utf-8")
