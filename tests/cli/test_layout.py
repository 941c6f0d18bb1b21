"""Tables in terminals of any width: nothing is cut, and what belongs together stays together."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from paceline.cli.layout import Head, TextGrid
from paceline.cli.tables import listing, number, pairs, plain_table, words

NODES = ("node", "seats", "CPU mean>", "memory mean>", "memory peak>", "net sent>", "net received>")
ROW = ("node0", "worker0, server0", "104 %", "1,366.7 MB", "1,366.7 MB", "20.3 MB", "20.4 MB")


def printed(table: TextGrid, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()


def nodes() -> TextGrid:
    table = plain_table(*NODES)
    table.add_row(*ROW)
    table.add_row("node1", "worker1", *ROW[2:])
    return table


def test_what_fits_is_one_line_a_row():
    assert printed(nodes(), 120) == [
        "node   seats             CPU mean  memory mean  memory peak  net sent  net received",
        "node0  worker0, server0     104 %   1,366.7 MB   1,366.7 MB   20.3 MB       20.4 MB",
        "node1  worker1              104 %   1,366.7 MB   1,366.7 MB   20.3 MB       20.4 MB",
    ]


def test_headings_fold_before_a_column_has_to_go():
    assert printed(nodes(), 73)[:3] == [
        "                           CPU      memory      memory      net       net",
        "node   seats              mean        mean        peak     sent  received",
        "node0  worker0, server0  104 %  1,366.7 MB  1,366.7 MB  20.3 MB   20.4 MB",
    ]


def test_columns_that_find_no_room_stand_below_and_name_their_row_again():
    assert printed(nodes(), 50) == [
        "node   seats             CPU mean  memory mean",
        "node0  worker0, server0     104 %   1,366.7 MB",
        "node1  worker1              104 %   1,366.7 MB",
        "node   memory peak  net sent  net received",
        "node0   1,366.7 MB   20.3 MB       20.4 MB",
        "node1   1,366.7 MB   20.3 MB       20.4 MB",
    ]


@pytest.mark.parametrize("width", range(8, 130))
def test_no_line_is_too_long_and_no_letter_is_lost(width):
    lines = printed(nodes(), width)
    assert max(map(len, lines)) <= width
    letters = "".join("".join(lines).split())
    for name in ("worker0", "worker1") if width >= 20 else ():
        assert name in letters
    for cell in ROW[2:]:
        assert cell in " ".join(lines) or width < 20


def runs(*, note: str = "") -> TextGrid:
    table = listing(
        Head("id"), Head("workload"), number("loss", 1), Head("compute", rank=2), Head("status")
    )
    table.add_row("4b176b", "logistic-mnist", "0.6761", "real compute", "finished", note=note)
    return table


def test_a_list_keeps_what_matters_most_beside_and_the_rest_below():
    assert printed(runs(), 36) == [
        "id      workload        status",
        "4b176b  logistic-mnist  finished",
        "    loss 0.6761 · real compute",
    ]
    assert printed(runs(), 80)[0].split() == ["id", "workload", "loss", "compute", "status"]


def test_a_note_wraps_at_words_below_its_row():
    lines = printed(runs(note="cannot be read: it is neither this nor that"), 40)
    assert lines[3:] == ["    cannot be read: it is neither this", "    nor that"]


def test_texts_wrap_at_words_and_names_do_not():
    table = listing(Head("name"), words("what it is"), number("runs"))
    table.add_row("ps-vs-ring", "five networks, one to six workers, a server against a ring", "152")
    assert printed(table, 50) == [
        "name        what it is                        runs",
        "ps-vs-ring  five networks, one to six          152",
        "            workers, a server against a ring",
    ]


def test_a_name_longer_than_the_terminal_is_folded_not_cut():
    table = pairs()
    table.add_row("run", "x" * 30)
    assert "".join("".join(printed(table, 20)).split()) == "run" + "x" * 30


def test_cells_are_no_markup_unless_asked_for():
    table = plain_table("what")
    table.add_row("[Errno 1] [/] [bold]")
    table.add_row(Text("told", style="green"))
    assert printed(table, 40) == ["what", "[Errno 1] [/] [bold]", "told"]


def test_a_table_without_rows_has_its_headings():
    assert printed(plain_table("a", "b>"), 40) == ["a  b"]


def test_a_pipe_has_every_column_in_one_line():
    assert printed(nodes(), 10_000) == printed(nodes(), 120)
