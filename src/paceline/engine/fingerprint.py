"""Whether all seats start alike: checksums of a model's state, and of data, compared."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import nn

    from paceline.outcome.accounts import RowsHeld

Sums = Mapping[str, int]

# A line carries messages of up to 128 KB.
_MOST_BYTES: Final = 60_000
_REST: Final = "one of the parameters after the first {}"


def state_sums(model: nn.Module) -> dict[str, int]:
    """Give a checksum of every parameter and buffer, by name; of very many, of the rest at once."""
    import torch

    sums: dict[str, int] = {}
    num_bytes, rest = 0, 0
    for name, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            continue
        data = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data
        num_bytes += len(name) + 16
        if num_bytes < _MOST_BYTES:
            sums[name] = zlib.crc32(data)
        else:
            rest = zlib.crc32(data, rest)
    return sums if num_bytes < _MOST_BYTES else sums | {_REST.format(len(sums)): rest}


def data_difference(by_seat: Mapping[str, RowsHeld]) -> tuple[str, str] | None:
    """Name a worker whose machine has other rows than most, and say which both have."""
    kinds = {seat: (rows.number, rows.checksum) for seat, rows in sorted(by_seat.items())}
    if len(set(kinds.values())) < 2:
        return None
    usual, _ = Counter(kinds.values()).most_common(1)[0]
    odd = next(seat for seat, kind in kinds.items() if kind != usual)
    other = next(seat for seat, kind in kinds.items() if kind == usual)
    return odd, (
        f"on {by_seat[odd].where} it reads {by_seat[odd]}, but {other} on {by_seat[other].where} "
        f"reads {by_seat[other]}. All nodes must have the same data: see `paceline data verify`, "
        "or copy it from one to the others"
    )


def difference(by_seat: Mapping[str, Sums]) -> tuple[str, str] | None:
    """Name a seat whose model differs from those of most others, and say in what.

    Seats without a model, such as monitors, have no sums.
    """
    by_seat = {seat: sums for seat, sums in sorted(by_seat.items(), reverse=True) if sums}
    versions = Counter(tuple(sums.items()) for sums in by_seat.values())
    if len(versions) < 2:
        return None
    usual, _ = versions.most_common(1)[0]
    seat, odd = next((seat, sums) for seat, sums in by_seat.items() if tuple(sums.items()) != usual)
    others = dict(usual)
    name = next((each for each in odd if odd[each] != others.get(each)), "its list of parameters")
    other = next(each for each, sums in by_seat.items() if tuple(sums.items()) == usual)
    return seat, (
        f"at the start its {name!r} differs from that of {other}. All must begin with the "
        "same values: draw them with torch in model(), which is seeded, or from a generator "
        "with a seed of its own"
    )
