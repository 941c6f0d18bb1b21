"""Exhibits: values as a reader sees them."""

import math

import polars
import pytest

from paceline.exhibits.values import (
    Claim,
    Column,
    Figure,
    Page,
    Section,
    Table,
    claims_table,
    table_of,
)


class TestColumn:
    def test_numbers_are_written_in_the_columns_unit(self):
        share = Column(name="accuracy", label="accuracy", unit="%", form=".1f", scale=100)
        assert share.text(0.9213) == "92.1"
        assert share.header == "accuracy (%)"

    @pytest.mark.parametrize("value", [None, math.nan])
    def test_what_is_not_known_is_a_dash(self, value):
        assert Column(name="a", label="a", form=".1f").text(value) == "-"

    def test_whole_numbers_stay_whole(self):
        assert Column(name="a", label="a", form=",").text(12_345) == "12,345"

    def test_text_in_a_column_of_numbers_is_left_as_it_is(self):
        assert Column(name="a", label="a", form=".1f").text("57, 56") == "57, 56"


class TestTable:
    columns = (Column(name="strategy", label="strategy"), Column(name="s", label="t", form=".1f"))

    def test_cells_are_text(self):
        table = table_of("t", "T", [{"strategy": "ring", "s": 1}, {"strategy": "x"}], self.columns)
        assert list(table.cells()) == [["ring", "1.0"], ["x", "-"]]

    def test_a_table_without_rows_has_its_columns(self):
        assert table_of("t", "T", [], self.columns).frame.columns == ["strategy", "s"]

    def test_its_name_must_do_for_a_file(self):
        with pytest.raises(AssertionError, match="not a file's name"):
            Table(name="a/b", title="", frame=polars.DataFrame(), columns=())


def test_a_page_knows_what_is_on_it():
    claim = Claim(key="L1", said="92 %", measured="91 %", judgement="holds")
    table = claims_table([claim])
    figure = Figure(name="f", title="F", table=table, draw=lambda _: None)
    page = Page(title="P", sections=(Section(title="S", items=(claim, table, figure)),))
    assert (page.claims, page.tables, page.figures) == ([claim], [table], [figure])
    assert list(table.cells()) == [["L1", "92 %", "91 %", "holds", ""]]
