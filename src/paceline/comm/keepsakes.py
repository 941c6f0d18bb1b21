"""What a seat keeps, by the names that words and sinks have for it."""

from __future__ import annotations

from typing import Literal

StreamName = Literal["rows", "losses", "log"]
"""What a seat adds to while it goes on."""
Copy = Literal["state", "snapshot"]
"""A seat's state: as part of a checkpoint, or by itself."""
KeptFile = Literal["model", "graph", "trace", "operators", "state", "snapshot"]
"""What a seat makes as a whole."""
