"""What a process needs to call the driver over TCP: where, whom to trust, and what to show."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Final, final

from paceline.reading import schema

_PORTS: Final = range(1, 1 << 16)
_TOKEN: Final = re.compile("[0-9a-f]{64}")


@final
@dataclass(frozen=True, kw_only=True)
class Invitation:
    """For one call of one process, in plain values: it travels over a pipe or in a private file."""

    who: str
    """The seat, or whatever else, that is to call."""
    host: str
    """The name or the address of the driver's machine, as the caller reaches it."""
    port: int
    certificate: str
    """The driver's own, made for the run, in PEM; it is the only one that is trusted."""
    token: str = field(repr=False)
    """The secret that the caller shows, in hex; it is taken once."""

    def written(self) -> str:
        """Give it as JSON, on one line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def read(text: str) -> Invitation:
        """Read what `written` gave; raises `ValueError` that names the field."""
        made = schema.read(Invitation, json.loads(text), "invitation", strict=True)
        if made.port not in _PORTS:
            raise ValueError(f"invitation.port = {made.port}: not from 1 to {_PORTS[-1]}")
        if _TOKEN.fullmatch(made.token) is None:  # what it is instead may still be a secret
            raise ValueError("invitation.token is not 64 digits in hex")
        return made
