"""Tables as files: right to the digit, and safe in what takes them."""

from paceline.exhibits import Column, table_of
from paceline.report import texts

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


def test_csv_has_all_digits_in_the_headers_unit():
    assert texts.csv(TABLE).splitlines() == [
        "strategy,time (ms),time (s) published",
        "ring & 5 %,1234.56,7.0",
        "a|b_c,,",
    ]


def test_markdown_is_a_table_with_its_note_and_labels():
    lines = texts.markdown(TABLE).splitlines()
    assert lines[2:6] == [
        "| strategy | time (ms) | time (s) |",
        "| --- | ---: | ---: |",
        "| ring & 5 % | 1234.56 | 7.0 |",
        r"| a\|b_c | - | - |",
    ]
    assert {"replayed compute", "A note."} <= set(lines)


def test_latex_escapes_what_it_must():
    text = texts.latex(TABLE)
    assert r"ring \& 5 \% & 1234.56 & 7.0 \\" in text
    assert r"a|b\_c & - & - \\" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r"\caption{A table. replayed compute A note.}" in text
