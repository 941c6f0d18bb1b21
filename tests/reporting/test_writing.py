"""A page as files: all of them there, and none without its label."""

import polars
import pytest

from paceline.errors import StoreError
from paceline.exhibits.values import Claim, Column, Figure, Page, Section, table_of
from paceline.reporting import write

LABEL = "replayed compute (k80), dilated 20x"
TABLE = table_of(
    "times", "Times", [{"side": "ring", "s": 1.5}], [Column(name="side", label="strategy")]
)
CLAIM = Claim(key="L1", said="about 0.33", measured="0.34", judgement="holds")


def drawn(frame):
    import altair

    return altair.Chart(altair.InlineData(values=frame.to_dicts())).mark_point().encode(x="side:N")


FIGURE = Figure(name="points", title="Points", table=TABLE, draw=drawn)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    page = Page(
        title="P",
        labels=(LABEL,),
        sections=(Section(title="S", items=(TABLE, FIGURE, CLAIM)),),
    )
    path = write(page, tmp_path_factory.mktemp("page"))
    assert path.name == "report.html"
    return path.parent


def test_everything_is_there(folder):
    tables = {
        f"tables/{name}.{kind}" for name in ("times", "claims") for kind in ("csv", "md", "tex")
    }
    figures = {f"figures/points.{kind}" for kind in ("png", "svg", "pdf", "csv")}
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {"report.html", *tables, *figures}


@pytest.mark.parametrize("name", ["tables/times", "tables/claims", "figures/points"])
def test_every_file_of_numbers_has_the_label_in_every_row(folder, name):
    assert polars.read_csv(folder / f"{name}.csv")["label"].to_list() == [LABEL]


@pytest.mark.parametrize("file", ["tables/times.md", "tables/claims.tex", "figures/points.svg"])
def test_what_is_read_has_the_label(folder, file):
    assert LABEL in (folder / file).read_text()


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write a report to"):
        write(Page(title="P"), tmp_path / "file")
