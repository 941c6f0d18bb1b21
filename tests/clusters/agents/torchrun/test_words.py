"""What is put into torchrun's store."""

import json

import pytest

from paceline.clusters.agents.seal import Seal, SecretDiffers
from paceline.clusters.agents.torchrun.words import (
    StoreWord,
    new_hello,
    opened_hello,
    opened_word,
    sealed_hello,
    sealed_word,
    unproven_hello,
    word_key,
)

SEAL = Seal("s" * 32, "mine")
OTHER = Seal("t" * 32, "mine")


def test_a_hello_is_opened_by_the_same_secret():
    hello = new_hello("10.0.0.7")
    data = sealed_hello(hello, SEAL, 2)
    assert opened_hello(data, SEAL, 2) == hello
    assert b"10.0.0.7" not in data


def test_whose_secret_differs_can_be_named():
    hello = new_hello("10.0.0.7")
    data = sealed_hello(hello, OTHER, 2)
    with pytest.raises(SecretDiffers):
        opened_hello(data, SEAL, 2)
    assert unproven_hello(data).host == hello.host


def test_nobody_says_hello_in_the_name_of_another_host():
    data = sealed_hello(new_hello("10.0.0.7"), SEAL, 2)
    open_part, closed = data.split(b"\n", 1)
    forged = json.dumps(json.loads(open_part) | {"host": "elsewhere"}).encode()
    with pytest.raises(SecretDiffers):
        opened_hello(forged + b"\n" + closed, SEAL, 2)


@pytest.mark.parametrize("data", [b"", b"\n", b"[]\n", b'{"host": 1}\n', b"\xff\n", b"{" * 9000])
def test_what_is_no_hello_is_refused(data):
    with pytest.raises(SecretDiffers):
        unproven_hello(data)
    with pytest.raises(SecretDiffers):
        opened_hello(data, SEAL, 2)


def test_a_word_is_read_under_its_own_key_only():
    word = StoreWord(kind="end", host="a", code=130, reason="stopped by the user")
    first, second = word_key(1, "ab", 0), word_key(1, "ab", 1)
    data = sealed_word(word, SEAL, 1, first)
    assert opened_word(data, SEAL, 1, first) == word
    with pytest.raises(SecretDiffers):
        opened_word(data, SEAL, 1, second)
