"""How a seat that does not see the run's folder gets the state that it goes on from."""

import threading

import pytest
import torch

from paceline.clusters.base import Berth
from paceline.comm import vocabularies, words
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Orders, Resumed, Ticket
from paceline.engine.handouts import Handouts
from paceline.engine.oddities import Odd
from paceline.engine.restoring import States
from paceline.store.checkpoints import folder_of, seat_state
from paceline.store.runs import RunDir
from paceline.store.states import write_state
from paceline.testing.states import assert_equal
from tests.sinks.kept import Kept


def berth_of(line: SeatLine | None, folder: str | None) -> Berth:
    orders = Orders(
        entry="paceline.engine.worker:main",
        run_key="00" * 16,
        password="",
        encrypts=False,
        medium="unix",
        threads=1,
        folder=folder,
        resumed=Resumed(progress=7, first="worker0"),
    )
    seat = Seat("worker", 1, "node0")
    return Berth(
        ticket=Ticket(orders=orders, seat=seat),
        line=line,
        sink=Kept(),
        open_channel=lambda: None,
    )


@pytest.mark.parametrize("num_values", [1, 16_000, 16_384, 1_000_000])
def test_a_state_comes_over_the_line_as_it_is_in_the_folder(num_values, tmp_path):
    run = RunDir(tmp_path)
    folder_of(run, 7).mkdir(parents=True)
    state = {"steps": 7, "values": torch.randn(num_values)}
    write_state(seat_state(folder_of(run, 7), "worker1"), state)
    assert_equal(States(berth_of(None, str(tmp_path))).of("worker1"), state)
    mine, its = PairLine.pair()
    driver = PairLine(mine, hears=vocabularies.said_by("worker"))
    line = SeatLine(PairLine(its, hears=vocabularies.FROM_DRIVER))
    handouts = Handouts(run, 7)

    def answer() -> None:
        while (word := driver.receive(5)) is not None and not isinstance(word, words.Settled):
            driver.send(handouts.portion(word))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert_equal(States(berth_of(line, None)).of("worker1"), state)
    finally:
        line.send(words.Settled())
        thread.join()
        line.close()
        driver.close()


@pytest.mark.parametrize("seat", ["../worker0", "worker9", "checkpoint.json", ""])
def test_nothing_but_states_of_seats_is_handed_out(seat, tmp_path):
    run = RunDir(tmp_path)
    folder_of(run, 7).mkdir(parents=True)
    for handouts in (Handouts(run, 7), Handouts(run, None)):
        with pytest.raises(Odd, match="it wants the state of"):
            handouts.portion(words.Fetch(what="state", seat=seat, start=0))
