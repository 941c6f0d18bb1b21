"""Words arrive as they were said, and nothing else does."""

from typing import get_args

import pytest

from paceline.comm import keeper_words, monitor_words, words
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import (
    FROM_DRIVER,
    FROM_MONITORS,
    FROM_SERVERS,
    FROM_WORKERS,
    Vocabulary,
    kind_of,
    said_by,
)
from paceline.seats import Role
from tests.comm.rows import ROW, SAMPLE

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


@pytest.mark.parametrize(
    ("word", "known"),
    [
        (words.Members(ROSTER), FROM_DRIVER),
        (words.Start(1.5), FROM_DRIVER),
        (words.Resume(paused_s=0.25, stop=True), FROM_DRIVER),
        (monitor_words.Observe({"worker0": 12}), FROM_DRIVER),
        (words.Here(pid=3, address="ipc://@1", key=None), FROM_WORKERS),
        (words.Joined(state={"a": 1}, data="mnist", has_buffers=True), FROM_WORKERS),
        (words.Failed("ValueError: é"), FROM_WORKERS),
        (words.Stepped(ROW), FROM_WORKERS),
        (monitor_words.Sampled(SAMPLE), FROM_MONITORS),
        (words.Piece(what="model", start=3, data="AAAA", digest="00"), FROM_WORKERS),
        (
            keeper_words.KeepSeats(
                orders=ORDERS, seats=[Seat("server", 0, "node0")], shares_memory=True
            ),
            keeper_words.TO_KEEPERS,
        ),
        (
            keeper_words.Built(
                links=[keeper_words.LinkReport(node="node0", asked=1.0, sent=2.0, received=3.0)],
                warnings=["slow"],
                is_capped=False,
            ),
            keeper_words.FROM_KEEPERS,
        ),
        (
            keeper_words.Fork(imports=["a"], path=[], environment={"A": None}, folder=None),
            keeper_words.TO_ZYGOTES,
        ),
    ],
)
def test_a_word_arrives_as_it_was_said(word: words.Word, known: Vocabulary):
    assert decode(encode(word), known) == word


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no JSON"),
        (b"[1]", "kind = 'none'"),
        (b'{"start_s":1}', "kind = 'None': not one of"),
        (b'{"kind":["start"],"start_s":1}', "not one of members, start"),
        (b'{"kind":"trained","totals":{}}', "kind = 'trained': not one of members, start"),
        (b'{"kind":"start"}', "start.start_s is missing"),
        (b'{"kind":"start","start_s":"soon"}', "start.start_s = 'soon': not a finite number"),
        (b'{"kind":"start","start_s":1,"at":2}', "start.at is no field of it"),
        (b'{"kind":"resume","paused_s":1,"stop":1}', "resume.stop = 1: not true or false"),
        (
            b'{"kind":"members","roster":{"sittings":[{"seat":{"role":"cook","index":0}}]}}',
            r"members.roster.sittings\[0\].seat.node is missing",
        ),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: bytes, reason: str):
    with pytest.raises(BadWord, match=reason):
        decode(text, FROM_DRIVER)


def test_a_row_that_lacks_something_is_refused():
    with pytest.raises(BadWord, match=r"stepped\.row\.compute_s is missing"):
        decode(b'{"kind":"stepped","row":{}}', FROM_WORKERS)


def test_no_word_is_said_both_by_the_driver_and_by_seats():
    for role in get_args(Role):
        assert not FROM_DRIVER.keys() & said_by(role).keys()


@pytest.mark.parametrize(
    ("word", "role"),
    [
        *((words.Paused(3), role) for role in ("server", "monitor")),
        *((words.Evaluated({}), role) for role in ("server", "monitor")),
        *((monitor_words.Noted("ending"), role) for role in ("worker", "server")),
        *((words.Served({}), role) for role in ("worker", "monitor")),
        *((words.Restored(version=3, num_lost=2), role) for role in ("worker", "monitor")),
    ],
)
def test_a_seat_says_only_what_its_role_says(word: words.Word, role: Role):
    with pytest.raises(BadWord, match=f"'{kind_of(type(word))}'"):
        decode(encode(word), said_by(role))


def test_every_word_is_said_by_somebody():
    said = (
        {
            each
            for known in (
                FROM_DRIVER,
                FROM_WORKERS,
                FROM_SERVERS,
                FROM_MONITORS,
                keeper_words.TO_KEEPERS,
                keeper_words.FROM_KEEPERS,
                keeper_words.TO_AGENTS,
            )
            for each in known.values()
        }
        | set(keeper_words.TO_ZYGOTES.values())
        | set(keeper_words.FROM_AGENTS.values())
    )
    assert said == set(words.Word.__subclasses__())


def test_secrets_are_not_shown():
    assert "password" not in repr(ORDERS)
