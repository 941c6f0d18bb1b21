"""Both ends of a line, for tests that need one."""

from paceline.comm.dialing import dial
from paceline.comm.line import Line
from paceline.comm.pair_line import PairLine
from paceline.comm.seat_line import SeatLine
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import FROM_DRIVER, FROM_WORKERS, Vocabulary


def tcp_line_of_a_seat() -> tuple[Line, SeatLine]:
    """Make both over TCP."""
    board = Switchboard(FROM_WORKERS, "127.0.0.1")
    try:
        its = dial(board.invite("worker0"), FROM_DRIVER)
        mine = board.answered("worker0", timeout_s=5)
    finally:
        board.close()
    assert mine is not None
    return mine, SeatLine(its)


def line_of_a_seat(says: Vocabulary = FROM_WORKERS) -> tuple[PairLine, SeatLine]:
    """Make the driver's end, and the seat's."""
    mine, its = PairLine.pair()
    return PairLine(mine, hears=says), SeatLine(PairLine(its, hears=FROM_DRIVER))
