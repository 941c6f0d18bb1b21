"""What `auto` chose, as a part of a worker's state: a run that goes on does not measure again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from paceline.comm.allreduce.choosing import Choice, Chosen
from paceline.errors import StateError
from paceline.training.state import State, StateReader

_BY_NAME: Final[dict[str, Chosen]] = {"ring": "ring", "halving": "halving"}


def choice_as_state(choice: Choice | None) -> State:
    """Give the field of a state, on a worker that has a choice."""
    return {} if choice is None else {"choice": asdict(choice)}


def choice_of(state: State) -> Choice:
    """Read what that field holds."""
    with StateReader(state) as fields:
        algorithm = fields.text("algorithm")
        if algorithm not in _BY_NAME:
            raise StateError("algorithm", repr(algorithm), f"expected one of {', '.join(_BY_NAME)}")
        return Choice(
            algorithm=_BY_NAME[algorithm],
            round_trip_s=fields.number("round_trip_s"),
            whole_s=fields.number("whole_s"),
        )
