"""Rosters for tests: everyone on one node, or at addresses that are known."""

from collections.abc import Mapping

from paceline.comm.roster import Roster, Seat, Sitting
from paceline.seats import parsed


def roster_of(*names: str) -> Roster:
    return Roster.of([Seat(*parsed(name), "node0") for name in names])


def roster_at(addresses: Mapping[str, str]) -> Roster:
    """Seats that are reached there."""
    sittings = (
        Sitting(seat=Seat(*parsed(name), "node0"), address=address)
        for name, address in addresses.items()
    )
    return Roster(tuple(sittings))
