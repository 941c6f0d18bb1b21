"""Words arrive as they were said, and nothing else does."""

import secrets
from typing import get_args

import pytest

from paceline.comm import keeper_words, monitor_words, words
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.vocabularies import (
    FROM_DRIVER,
    FROM_MONITORS,
    FROM_SERVERS,
    FROM_WORKERS,
    NODE_TASKS,
    Vocabulary,
    kind_of,
    said_by,
)
from paceline.seats import Role
from tests.comm.word_fuzz import ORDERS, SAID, fuzz


@pytest.mark.parametrize(("word", "known"), SAID)
def test_a_word_arrives_as_it_was_said(word: words.Word, known: Vocabulary):
    assert decode(encode(word), known) == word


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no JSON"),
        (b"[1]", "kind = 'none'"),
        (b'{"start_s":1}', "kind = 'none': not one of"),
        (b'{"kind":["start"],"start_s":1}', "not one of members, start"),
        (b'{"kind":"start","start_s":' + b"9" * 400 + b"}", r"start_s = 9+…: not a finite number"),
        (
            b'{"kind":"restat","progress":' + b"9" * 400 + b"}",
            r"= 9+…: not a whole number of 64 bits",
        ),
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


@pytest.mark.parametrize("place", [b"[1,%b]", b'{"kind":%b}', b'{"kind":"start","start_s":%b}'])
def test_what_is_nested_however_deeply_is_refused(place: bytes):
    for depth in range(1, 1100):
        with pytest.raises(BadWord):
            decode(place % (b"[" * depth + b"]" * depth), FROM_DRIVER)


@pytest.mark.parametrize("seed", [0, None], ids=["the same each time", "another each time"])
def test_a_damaged_word_is_taken_or_refused_and_nothing_else(seed: int | None):
    seed = secrets.randbits(32) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201 - shown if it fails
    assert 0 < fuzz(10_000, seed) < 5_000


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
                NODE_TASKS,
            )
            for each in known.values()
        }
        | set(keeper_words.TO_ZYGOTES.values())
        | set(keeper_words.FROM_AGENTS.values())
    )
    assert said == set(words.Word.__subclasses__())


def test_secrets_are_not_shown():
    assert "password" not in repr(ORDERS)
