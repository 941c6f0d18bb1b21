"""Two sides that share a secret find each other; with another secret they do not."""

import pytest

from paceline.clusters.agents.manual.meeting import (
    invitation_from,
    seed_of,
    split_address,
    token_of,
    who_at,
)
from paceline.comm.certificates import derived_identity
from paceline.comm.dialing import NotTrusted, TurnedAway, dial
from paceline.comm.keeper_words import FROM_AGENTS, TO_AGENTS
from paceline.comm.switchboard import Switchboard
from paceline.comm.vocabularies import NOTHING

SECRET = "0123456789abcdef" * 4
HERE = "127.0.0.1"


@pytest.fixture
def board():
    board = Switchboard(NOTHING, identity_seed=seed_of(SECRET))
    board.invite(who_at(HERE), hears=FROM_AGENTS, token=token_of(SECRET, HERE))
    yield board
    board.close()


def called(board, secret=SECRET, address=HERE):
    invitation = invitation_from(secret, HERE, board.port, address, who_at(address))
    return dial(invitation, TO_AGENTS, looks_after=False)


def test_the_certificate_is_the_same_for_all_who_have_the_secret():
    assert derived_identity(seed_of(SECRET))[1] == derived_identity(seed_of(SECRET))[1]
    assert derived_identity(seed_of(SECRET))[1] != derived_identity(seed_of(SECRET[::-1]))[1]
    assert token_of(SECRET, HERE) != token_of(SECRET, "127.0.0.2")
    assert seed_of(SECRET) != token_of(SECRET, HERE)


def test_a_host_of_the_list_is_let_in_once(board):
    line = called(board)
    answered = board.answered(who_at(HERE), 10.0)
    assert answered is not None
    with pytest.raises(TurnedAway):
        called(board)
    line.close()
    answered.close()


def test_a_host_that_is_not_in_the_list_is_turned_away(board):
    with pytest.raises(TurnedAway):
        called(board, address="127.0.0.9")
    assert board.num_refused == 1


def test_with_another_secret_neither_trusts_the_other(board):
    with pytest.raises(NotTrusted):
        called(board, secret=SECRET[::-1])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("10.0.0.13:2861", ("10.0.0.13", 2861)),
        ("b", ("b", None)),
        ("[fd00::1]:2861", ("fd00::1", 2861)),
        ("fd00::1", ("fd00::1", None)),
    ],
)
def test_addresses_as_people_write_them(text, read):
    assert split_address(text) == read


@pytest.mark.parametrize("text", ["", ":2861", "b:", "b:0", "b:http", "b:99999"])
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="HOST"):
        split_address(text)
