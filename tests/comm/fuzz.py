"""Throws bytes at the frame decoder: random ones, and frames of ours that were damaged on purpose.

    python -m tests.comm.fuzz [--frames 5000000] [--seed S]
    python -m tests.comm.fuzz --guided [--frames 5000000]

The first needs nothing else and repeats with its seed. With `--guided`, atheris looks for inputs
that reach parts of the decoder which none has reached before.
"""

from __future__ import annotations

import argparse
import random
import secrets
import struct
import time
from collections.abc import Iterator
from itertools import islice
from math import prod

from paceline.comm import wire
from paceline.comm.base import Message
from paceline.errors import WireError
from paceline.seats import MOST_NUMBER
from tests import guided_fuzz

RUN = bytes(range(16))
MOST_VALUE_BYTES = 1 << 12
ODD_NUMBERS = [
    number & (2**64 - 1)
    for power in (0, 1, 8, 16, 31, 32, 33, 53, 62, 63, 64)
    for number in (2**power - 1, 2**power, 2**power + 1)
]


def judge(frame: bytearray) -> bool:
    """Decode a frame; returns whether it was accepted.

    Anything but a `WireError` is raised, and so is an `AssertionError` if a frame is accepted that
    does not say exactly what it brings.
    """
    whole = memoryview(frame)
    values = whole[wire.HEADER_BYTES :]
    try:
        kind, sequence, tag = wire.decode(whole, len(values), RUN)
    except WireError:
        return False
    assert wire.encode(kind, sequence, tag) == frame[: wire.HEADER_BYTES]
    assert kind.num_bytes == len(values) <= wire.MOST_BYTES
    assert prod(each or 1 for each in kind.shape) <= wire.MOST_BYTES
    tensor = Message(kind.sender, tag, kind.dtype, kind.shape, values).values
    assert tuple(tensor.shape) == kind.shape
    assert tensor.nbytes == len(values)
    return True


def frames(seed: int) -> Iterator[bytearray]:
    """Yield frames without end, the same for one seed: every eighth noise, the others damaged."""
    chance = random.Random(seed)
    ours = [well_made(chance) for _ in range(500)]
    while True:
        yield noise(chance)
        for _ in range(7):
            yield damaged(chance, ours)


def noise(chance: random.Random) -> bytearray:
    start = chance.choice([b"", wire.MAGIC, wire.MAGIC + bytes([wire.VERSION])])
    return bytearray(start + chance.randbytes(chance.randrange(2 * wire.HEADER_BYTES)))


def well_made(chance: random.Random) -> bytes:
    dtype = chance.randrange(len(wire.DTYPES))
    shape = [chance.choice((0, 1, 2, 3, 7, 16)) for _ in range(chance.randrange(5))]
    num_bytes = prod(shape) * wire.ITEM_BYTES[dtype]
    if num_bytes > MOST_VALUE_BYTES:
        shape, num_bytes = [], wire.ITEM_BYTES[dtype]
    sender = f"{chance.choice(wire.ROLES)}{chance.choice((0, 1, MOST_NUMBER))}"
    incarnation = chance.choice((0, 0, 1, 2**32 - 1))
    kind = wire.Kind(RUN, sender, wire.DTYPES[dtype], tuple(shape), incarnation)
    numbers = chance.choice(ODD_NUMBERS), chance.choice(ODD_NUMBERS)
    return wire.encode(kind, *numbers) + bytes(num_bytes)


def damaged(chance: random.Random, ours: list[bytes]) -> bytearray:
    """Do one thing or a few to a frame of ours; now and then nothing."""
    frame = bytearray(chance.choice(ours))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        frame = chance.choice(DAMAGES)(chance, frame)
    if chance.random() < 0.1:
        place = chance.randrange(len(frame) + 1)
        frame = frame[:place] + chance.choice(ours)[place:]
    return frame


def flip_a_bit(chance: random.Random, frame: bytearray) -> bytearray:
    if frame:
        frame[chance.randrange(min(len(frame), wire.HEADER_BYTES))] ^= 1 << chance.randrange(8)
    return frame


def overwrite_a_byte(chance: random.Random, frame: bytearray) -> bytearray:
    if frame:
        frame[chance.randrange(min(len(frame), 8))] = chance.randrange(256)
    return frame


def overwrite_a_number(chance: random.Random, frame: bytearray) -> bytearray:
    """All numbers of a header begin at multiples of eight: rank, shape, length, sequence, tag."""
    place = 8 * chance.randrange(1, wire.HEADER_BYTES // 8)
    if len(frame) >= place + 8:
        struct.pack_into("<Q", frame, place, chance.choice(ODD_NUMBERS))
    return frame


def swap_numbers(chance: random.Random, frame: bytearray) -> bytearray:
    one, other = (8 * chance.randrange(4, wire.HEADER_BYTES // 8) for _ in range(2))
    if len(frame) >= wire.HEADER_BYTES:
        frame[one : one + 8], frame[other : other + 8] = (
            frame[other : other + 8],
            frame[one : one + 8],
        )
    return frame


def cut(chance: random.Random, frame: bytearray) -> bytearray:
    return frame[: chance.randrange(len(frame) + 1)]


def extend(chance: random.Random, frame: bytearray) -> bytearray:
    return frame + chance.randbytes(chance.randrange(1, 64))


DAMAGES = [
    flip_a_bit,
    overwrite_a_byte,
    overwrite_a_number,
    overwrite_a_number,
    swap_numbers,
    cut,
    extend,
]


def fuzz(num_frames: int, seed: int) -> int:
    """Judge so many frames; returns how many were accepted."""
    return sum(map(judge, islice(frames(seed), num_frames)))


def guided(num_frames: int) -> None:
    """Let atheris choose the frames."""

    def one_input(data: bytes) -> None:
        # Most random bytes are of another run; half of the time that is not what is looked at.
        if len(data) >= 32 and data[0] & 1:
            data = wire.MAGIC + bytes([wire.VERSION]) + data[5:16] + RUN + data[32:]
        judge(bytearray(data))

    functions = (wire.decode, wire._read_kind.__wrapped__)
    arguments = [f"-runs={num_frames}", "-max_len=256"]
    guided_fuzz.in_child(lambda _: guided_fuzz.fuzz(functions, one_input, arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--guided", action="store_true")
    arguments = parser.parse_args()
    if arguments.guided:
        guided(arguments.frames)
        return
    began_s = time.monotonic()
    accepted = fuzz(arguments.frames, arguments.seed)
    took_s = time.monotonic() - began_s
    print(  # noqa: T201 - a command
        f"seed {arguments.seed}: {arguments.frames:,} frames in {took_s:.0f} s, "
        f"{accepted:,} accepted, the others refused, nothing else raised"
    )


if __name__ == "__main__":
    main()
