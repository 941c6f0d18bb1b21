"""Tables as text that can be handed in: CSV, Markdown, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from polars import DataFrame, Expr, Float64, String, col, lit

from paceline.exhibits.values import Column, Table

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # At the start of a row these would belong to the end of the row before.
    "[": "{[}",
    "*": "{*}",
    # What the usual fonts do not have as a letter.
    "±": r"$\pm$",
    "×": r"$\times$",  # noqa: RUF001 - the sign, not a letter
    "·": r"$\cdot$",
    "−": "$-$",  # noqa: RUF001 - the sign, not a hyphen
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "²": r"$^2$",
    "³": r"$^3$",
    "µ": r"\textmu{}",
    "–": "--",  # noqa: RUF001 - the dash that it is
    "—": "---",
    "…": r"\ldots{}",
}
_MARKDOWN: Final = {
    "<": "&lt;",
    ">": "&gt;",
    "\\": "\\\\",
    "|": "\\|",
    "[": "\\[",
    "]": "\\]",
}
_ENTITY: Final = re.compile(r"&(?=[#A-Za-z])")
_FORMULA: Final = re.compile(r"^([=+\-@\t\r])")
# Text longer than this many letters is set in lines; a page has room for about so many in all.
_LONG: Final = 20
_LINE: Final = 85
# More rows of such text may not fit on one page.
_MANY_ROWS: Final = 8
# However much stands beside it, long text has this part of the width.
_LEAST_WIDTH: Final = 0.4


def csv(table: Table) -> str:
    """Give all values, to twelve digits and in the units of the headers, for programs.

    Where the table has labels, so has every row, in the last column.
    """
    labels = [lit(", ".join(table.labels)).alias("label")] if table.labels else []
    values = [each for column in table.columns for each in _values(column)]
    return without_formulas(table.frame.select(*values, *labels)).write_csv()


def without_formulas(frame: DataFrame) -> DataFrame:
    """Put an apostrophe before texts that a spreadsheet would take for a formula, and run.

    Numbers stay as they are, those below zero too.
    """
    texts = col(String).str.replace(r"^([=+\-@\t\r])", "'${1}")
    renamed = {name: _FORMULA.sub(r"'\1", name) for name in frame.columns}
    return frame.with_columns(texts).rename(renamed)


def _values(column: Column) -> Iterator[Expr]:
    values = col(column.name)
    if column.scale != 1.0:
        values = (values.cast(Float64) * column.scale).round_sig_figs(12)
    yield values.alias(f"{column.header}{' published' if column.published else ''}")
    if column.spread:
        yield from _values(
            replace(column, name=column.spread, label=f"{column.label} ±", spread="")
        )


def markdown(table: Table) -> str:
    """Give the table as it is read, for documents."""
    rows = [_escaped(cells) for cells in table.cells()]
    rules = ["---:" if each.is_number else "---" for each in table.columns]
    lines = [_escaped(table.headers), rules, *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"**{_markdown(table.title)}**\n\n{text}\n{_markdown(_below(table))}"


def latex(table: Table) -> str:
    r"""Give the table for a paper; it needs \usepackage{booktabs,array,graphicx,longtable}."""
    cells = list(table.cells())
    kinds, is_wide = _kinds(table, cells)
    note = ". ".join(filter(None, (", ".join(table.labels), table.note)))
    caption = _latex(f"{table.title}. {note}" if note else table.title)
    rows = [
        r"\toprule",
        " & ".join(map(_latex, table.headers)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_latex, row)) + r" \\" for row in cells),
        r"\bottomrule",
    ]
    is_text = any("p{" in each for each in kinds)
    title = rf"\caption{{{caption}}}\label{{tab:{table.name}}}"
    if is_text and len(cells) > _MANY_ROWS:
        lines = _over_pages(title, kinds, rows)
    else:
        lines = _on_a_page(title, kinds, rows, is_text=is_text, is_wide=is_wide)
    return "\n".join(lines) + "\n"


def _on_a_page(
    title: str, kinds: Sequence[str], rows: Sequence[str], *, is_text: bool, is_wide: bool
) -> list[str]:
    return [
        r"\begin{table}",
        r"\centering",
        *([r"\footnotesize"] if is_text else []),
        title,
        *([r"\resizebox{\linewidth}{!}{%"] if is_wide else []),
        rf"\begin{{tabular}}{{{''.join(kinds)}}}",
        *rows,
        r"\end{tabular}" + ("}" if is_wide else ""),
        r"\end{table}",
    ]


def _over_pages(title: str, kinds: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Let a table go on to the next page, its head repeated there."""
    return [
        r"{\footnotesize",
        rf"\begin{{longtable}}{{{''.join(kinds)}}}",
        rf"{title}\\",
        *rows[:3],
        r"\endhead",
        *rows[3:],
        r"\end{longtable}",
        "}",
    ]


def _kinds(table: Table, cells: Sequence[Sequence[str]]) -> tuple[list[str], bool]:
    """Say how LaTeX sets each column, and whether all of them are too wide for a page.

    Numbers stand right, words left, long text in lines. Long columns share what the others leave
    of the line, by the root of their length: a sentence gets more than a name, but not all.
    """
    lengths = [max(map(len, column)) for column in zip(table.headers, *cells, strict=True)]
    roots = [
        length**0.5 if length > _LONG and not column.is_number else 0.0
        for column, length in zip(table.columns, lengths, strict=True)
    ]
    others = sum(length + 2 for length, root in zip(lengths, roots, strict=True) if not root)
    left = 1 - others / _LINE - 0.03 * sum(map(bool, roots))
    width = max(_LEAST_WIDTH, left) if any(roots) else 0.0
    kinds = [
        rf">{{\raggedright\arraybackslash}}p{{{width * root / sum(roots):.2f}\linewidth}}"
        if root
        else ("r" if column.is_number else "l")
        for column, root in zip(table.columns, roots, strict=True)
    ]
    return kinds, width > left


def _below(table: Table) -> str:
    parts = [" · ".join(table.labels), table.note]
    return "".join(f"\n{part}\n" for part in parts if part)


def _escaped(cells: list[str]) -> list[str]:
    return [_markdown(cell).replace("\n", " ") for cell in cells]


def _markdown(text: str) -> str:
    """Take from a text what Markdown, or HTML within it, would understand as anything else."""
    named = _ENTITY.sub("&amp;", text)
    return "".join(_MARKDOWN.get(letter, letter) for letter in named)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text.replace("\n", " "))
