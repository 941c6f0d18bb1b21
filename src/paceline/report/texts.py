"""Tables as text that can be handed in: CSV, Markdown, LaTeX."""

from __future__ import annotations

from typing import Final

from polars import Expr, Float64, col

from paceline.exhibits import Column, Table

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
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "µ": r"\textmu{}",
    "→": r"$\to$",
}


def csv(table: Table) -> str:
    """Give all values, to twelve digits and in the units of the headers, for programs."""
    return table.frame.select(map(_values, table.columns)).write_csv()


def _values(column: Column) -> Expr:
    values = col(column.name)
    if column.scale != 1.0:
        values = (values.cast(Float64) * column.scale).round_sig_figs(12)
    return values.alias(f"{column.header}{' published' if column.published else ''}")


def markdown(table: Table) -> str:
    """Give the table as it is read, for documents."""
    rows = [_escaped(cells) for cells in table.cells()]
    rules = ["---:" if each.is_number else "---" for each in table.columns]
    lines = [_escaped(table.headers), rules, *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"**{table.title}**\n\n{text}\n{_below(table)}"


def latex(table: Table) -> str:
    r"""Give the table for a paper; it needs \usepackage{booktabs}."""
    kinds = "".join("r" if each.is_number else "l" for each in table.columns)
    rows = [" & ".join(map(_latex, cells)) + r" \\" for cells in table.cells()]
    heads = " & ".join(map(_latex, table.headers)) + r" \\"
    note = " ".join((*table.labels, table.note)).strip()
    caption = f"{table.title}. {note}" if note else table.title
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        heads,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _below(table: Table) -> str:
    parts = [" · ".join(table.labels), table.note]
    return "".join(f"\n{part}\n" for part in parts if part)


def _escaped(cells: list[str]) -> list[str]:
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text.replace("\n", " "))
