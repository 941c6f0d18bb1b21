"""Throws damaged words at what reads them: a seat that is hostile or broken may say anything.

    python -m tests.comm.word_fuzz [--words 1000000] [--seed S]
    python -m tests.comm.word_fuzz --guided [--words 1000000]

Whatever comes is a word or a `BadWord`, and nothing else is raised.
"""

from __future__ import annotations

import argparse
import random
import secrets
import time
from pathlib import Path
from types import FunctionType

from paceline.comm import keeper_words, monitor_words, node_words, spelling, words
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import (
    FROM_DRIVER,
    FROM_MONITORS,
    FROM_SERVERS,
    FROM_WORKERS,
    NODE_TASKS,
    Vocabulary,
)
from paceline.comm.words import Word
from paceline.outcome.accounts import RowsHeld, ServerAccount, WorkerAccount
from paceline.outcome.rows import CommandSample
from paceline.reading import schema
from paceline.training.shares import Share
from tests import guided_fuzz
from tests.comm.rows import ROW, SAMPLE
from tests.damage import damaged

ROSTER = Roster(
    (
        Sitting(seat=Seat("worker", 0, "node0"), address="tcp://127.0.0.1:5", key="k"),
        Sitting(seat=Seat("worker", 1, "node1"), incarnation=2),
    ),
    epoch=3,
)
ORDERS = Orders(
    entry="a.b:c",
    run_key="00",
    password="p",
    encrypts=False,
    medium="unix",
    threads=1,
    folder=None,
    spec="x = 1",
)
KEPT_SEATS = keeper_words.KeepSeats(
    orders=ORDERS, seats=[Seat("server", 0, "node0")], shares_memory=True
)
BUILT = keeper_words.Built(
    links=[keeper_words.LinkReport(node="node0", asked=1.0, sent=2.0, received=3.0)],
    warnings=["slow"],
    is_capped=False,
)
TRAINED = words.Trained(
    WorkerAccount(train_s=1.5, worker_steps=3, samples=30, staleness={"0": 2}, other={"a": 1.0})
)
JOINED = words.Joined(
    state={"a": 1},
    data="mnist",
    has_buffers=True,
    rows=RowsHeld(where="here", origin="mnist", number=3, checksum=None),
)
USED = node_words.CommandUsed(
    CommandSample(
        time_s=0.5, cpu_percent=99.0, memory_bytes=9, disk_read_bytes=None, disk_written_bytes=0,
        machine_sent_bytes=1, machine_received_bytes=2, machine_packets_sent=3,
        machine_packets_received=4, processes=1,
    )
)  # fmt: skip
SAID: list[tuple[Word, Vocabulary]] = [
    (words.Members(ROSTER), FROM_DRIVER),
    (words.Start(1.5, shares=[Share(rank=1, start=2)]), FROM_DRIVER),
    (words.Resume(paused_s=0.25, stop=True), FROM_DRIVER),
    (monitor_words.Observe({"worker0": 12}), FROM_DRIVER),
    (words.Here(pid=3, address="ipc://@1", key=None), FROM_WORKERS),
    (JOINED, FROM_WORKERS),
    (words.Failed("ValueError: é"), FROM_WORKERS),
    (words.Stepped(ROW), FROM_WORKERS),
    (words.Evaluated({"loss": float("inf")}, num_rows=3), FROM_WORKERS),
    (TRAINED, FROM_WORKERS),
    (words.Served(ServerAccount(updates=3, late_by_worker_s={"worker0": 0.5})), FROM_SERVERS),
    (monitor_words.Sampled(SAMPLE), FROM_MONITORS),
    (USED, FROM_WORKERS),
    (
        node_words.MeasureRates(spec="x = 1", num_steps=3, device="d", source="here"),
        NODE_TASKS,
    ),
    (words.Piece(what="model", start=3, data="AAAA", digest="00"), FROM_WORKERS),
    (KEPT_SEATS, keeper_words.TO_KEEPERS),
    (BUILT, keeper_words.FROM_KEEPERS),
    (
        keeper_words.Fork(imports=["a"], path=[], environment={"A": None}, folder=None),
        keeper_words.TO_ZYGOTES,
    ),
    (keeper_words.Probed(token="00", received=1e9, round_trip_s=1e-3), keeper_words.FROM_AGENTS),
]
"""Words of every kind of line, and who may say them."""


def judge(text: bytes, known: Vocabulary) -> bool:
    """Read a word; returns whether it was taken. One that is taken travels as it was taken."""
    try:
        word = decode(text, known)
    except BadWord:
        return False
    try:
        again = encode(word)
    except RecursionError:  # an answer or a plan may hold what could just be read
        return True
    assert encode(decode(again, known)) == again
    return True


def fuzz(num_words: int, seed: int) -> int:
    """Judge so many damaged words; returns how many were taken."""
    chance = random.Random(seed)
    ours = [(encode(word), known) for word, known in SAID]
    taken = 0
    for _ in range(num_words):
        good, known = chance.choice(ours)
        taken += judge(damaged(chance, good), known)
    return taken


def guided(num_words: int) -> None:
    """Let atheris choose the words; the first byte says who would have said them."""

    def work(folder: Path) -> None:
        corpus = folder / "corpus"
        corpus.mkdir()
        for index, (word, _) in enumerate(SAID):
            (corpus / str(index)).write_bytes(bytes([index]) + encode(word))

        def one_input(data: bytes) -> None:
            judge(data[1:], SAID[data[0] % len(SAID)][1] if data else FROM_DRIVER)

        arguments = [f"-runs={num_words}", "-max_len=4096", str(corpus)]
        guided_fuzz.fuzz(_readers(), one_input, arguments)

    guided_fuzz.in_child(work)


def _readers() -> list[FunctionType]:
    found = [(module, each) for module in (schema, spelling) for each in vars(module).values()]
    return [
        each
        for module, each in found
        if isinstance(each, FunctionType) and each.__module__ == module.__name__
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--guided", action="store_true")
    arguments = parser.parse_args()
    if arguments.guided:
        guided(arguments.words)
        return
    began_s = time.monotonic()
    taken = fuzz(arguments.words, arguments.seed)
    took_s = time.monotonic() - began_s
    print(  # noqa: T201 - a command
        f"seed {arguments.seed}: {arguments.words:,} words in {took_s:.0f} s, "
        f"{taken:,} taken, the others refused, nothing else raised"
    )


if __name__ == "__main__":
    main()
