"""Tables as files: right to the digit, labelled, and safe in what takes them."""

import re
from dataclasses import replace

import pytest

from paceline.exhibits.values import Claim, Column, Table, claims_table, table_of
from paceline.reporting import texts

TABLE = table_of(
    "t",
    "A table",
    [{"side": "ring & 5 %", "s": 1.23456, "old": 7.0}, {"side": "a|b_c"}],
    [
        Column(name="side", label="strategy"),
        Column(name="s", label="time", unit="ms", form=".2f", scale=1000),
        Column(name="old", label="time", unit="s", form=".1f", published=True),
    ],
    note="A note.",
    labels=("replayed compute",),
)
REPEATED = table_of(
    "t",
    "T",
    [{"side": "ring", "s": 1.5, "half": 0.25}, {"side": "single", "s": 2.0}, {"side": "x"}],
    [
        Column(name="side", label="strategy"),
        Column(name="s", label="time", unit="ms", form=".0f", scale=1000, spread="half"),
    ],
)
LONG = "Rows per second do not grow with the number of workers beyond four of them. " * 5
CLAIMS = claims_table(
    [Claim(key="L1", said=LONG, measured="0.33 s", judgement="holds", reason=LONG[:150])],
    ("real compute",),
)


def test_csv_has_all_digits_in_the_headers_unit_and_the_label():
    assert texts.csv(TABLE).splitlines() == [
        "strategy,time (ms),time (s) published,label",
        "ring & 5 %,1234.56,7.0,replayed compute",
        "a|b_c,,,replayed compute",
    ]


def test_csv_of_a_table_without_labels_has_no_column_for_them():
    assert texts.csv(replace(TABLE, labels=())).splitlines()[2] == "a|b_c,,"


def test_markdown_is_a_table_with_its_note_and_labels():
    lines = texts.markdown(TABLE).splitlines()
    assert lines[2:6] == [
        "| strategy | time (ms) | time (s) |",
        "| --- | ---: | ---: |",
        "| ring & 5 % | 1234.56 | 7.0 |",
        r"| a\|b_c | - | - |",
    ]
    assert {"replayed compute", "A note."} <= set(lines)


def test_a_spread_stands_behind_its_value():
    assert [cells[1] for cells in REPEATED.cells()] == ["1500 ± 250", "2000", "-"]
    assert texts.csv(REPEATED).splitlines()[:3] == [
        "strategy,time (ms),time ± (ms)",
        "ring,1500.0,250.0",
        "single,2000.0,",
    ]
    assert r"ring & 1500 $\pm$ 250 \\" in texts.latex(REPEATED)


def test_latex_escapes_what_it_must():
    text = texts.latex(TABLE)
    assert r"ring \& 5 \% & 1234.56 & 7.0 \\" in text
    assert r"a\textbar{}b\_c & - & - \\" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r"\caption{A table. replayed compute. A note.}\label{tab:t}" in text


@pytest.mark.parametrize("name", ["[a]", "*b", "a\\b", "~^<>{}", "≥ 2 × 3 → 5 µs ± 1 − 0"])  # noqa: RUF001
def test_latex_is_left_nothing_that_it_would_take_for_its_own(name):
    row = table_of("t", "T", [{"a": name}], [Column(name="a", label="a")])
    _, line = (each for each in texts.latex(row).splitlines() if each.endswith(r" \\"))
    assert not re.match(r"[\[*]", line)
    assert not re.search(r"[<>~|≥×→µ±−]", line)  # noqa: RUF001
    assert line.count("{") - line.count(r"\{") == line.count("}") - line.count(r"\}")


def test_latex_sets_long_text_in_lines_that_fit_the_page():
    text = texts.latex(CLAIMS)
    (kinds,) = re.findall(r"begin\{tabular\}\{(.*)\}", text)
    widths = [float(each) for each in re.findall(r"p\{([\d.]+)\\linewidth\}", kinds)]
    assert re.sub(r">\{\\raggedright\\arraybackslash\}p\{[^}]*\}", "p", kinds) == "lpllp"
    assert widths[0] > widths[1]
    assert 0.4 <= sum(widths) < 1
    assert r"\footnotesize" in text
    assert r"\caption{Claims. real compute}" in text
    assert r"\resizebox" not in text


def test_latex_lets_many_rows_of_text_go_on_to_the_next_page():
    claim = Claim(key="L1", said=LONG, measured="0.33 s", judgement="holds")
    lines = texts.latex(claims_table([claim] * 20, ("real compute",))).splitlines()
    assert lines[0] == r"{\footnotesize"
    assert lines[1].startswith(r"\begin{longtable}{l>{\raggedright")
    assert lines[2] == r"\caption{Claims. real compute}\label{tab:claims}\\"
    assert lines[4].startswith("key & said")
    assert lines[5:7] == [r"\midrule", r"\endhead"]
    assert lines[-3:] == [r"\bottomrule", r"\end{longtable}", "}"]
    assert sum(line.startswith("L1 & ") for line in lines) == 20


def test_latex_makes_a_table_smaller_that_is_too_wide_for_a_page():
    columns = [Column(name=f"c{number}", label="a long header", form="d") for number in range(12)]
    rows = [{column.name: 1 for column in columns}]
    lines = texts.latex(table_of("t", "T", rows, columns)).splitlines()
    at = lines.index(r"\resizebox{\linewidth}{!}{%")
    assert lines[at + 1] == r"\begin{tabular}{rrrrrrrrrrrr}"
    assert lines[-2:] == [r"\end{tabular}}", r"\end{table}"]
    assert r"\resizebox" not in texts.latex(TABLE)


HOSTILE = "<script>alert(1)</script>"


def hostile(text: str) -> Table:
    rows = [{"name": text, "value": -1.5}]
    columns = [Column(name="name", label=text), Column(name="value", label="value", form=".1f")]
    return table_of("t", text, rows, columns, note=text, labels=(text,))


@pytest.mark.parametrize("text", [HOSTILE, "&lt;b&gt;", "[x](javascript:alert(1))", "a\\|b"])
def test_markdown_holds_no_html_no_link_and_no_further_cell(text: str):
    written = texts.markdown(hostile(text))
    assert "<" not in written
    assert "](" not in written.replace("\\](", "")
    assert "&lt;b" not in written
    cells = re.sub(r"\\.", "", written.splitlines()[2])
    assert cells.count("|") == 3


@pytest.mark.parametrize("start", "=+-@\t\r")
def test_a_spreadsheet_finds_no_formula(start: str):
    head, row = texts.csv(hostile(f"{start}cmd()")).replace('"', "").split("\n")[:2]
    assert head.startswith(f"'{start}cmd()")
    assert row.startswith(f"'{start}cmd()")
    assert ",-1.5," in row
