"""What seats counted travels as fields of known types, and errors name the key."""

import math
from collections import Counter

import pytest

from paceline.comm import vocabularies, words
from paceline.comm.spelling import BadWord, decode, encode
from paceline.outcome.accounts import RefusedSteps, ServerAccount, WorkerAccount, account_of
from paceline.outcome.buckets import BucketTotals

KNOWN = vocabularies.vocabulary([words.Trained, words.Served, words.Evaluated, words.Refused])
DONE = {"train_s": 2.0, "worker_steps": 3, "samples": 30}
BUCKET = {"num_bytes": 4, "start_s": 0.1, "run_s": 0.2, "wait_s": 0.0}


def test_what_a_strategy_counts_is_read_by_name():
    counted = {"staleness": Counter({0: 2, 3: 1}), "buckets": [BUCKET], "sent_bytes": 5}
    account = account_of(WorkerAccount, {**DONE, **counted})
    assert account.staleness == {"0": 2, "3": 1}
    assert account.buckets == (BucketTotals(**BUCKET),)
    assert (account.sent_bytes, account.received_bytes, account.progress) == (5, None, 3)


def test_numbers_of_a_users_own_are_kept_beside():
    account = account_of(WorkerAccount, {**DONE, "rounds": 7, "drift": math.inf})
    assert account.other == {"drift": math.inf, "rounds": 7}


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        ({"sent_bytes": 1.5}, r"sent_bytes = 1\.5: not a whole number"),
        ({"late_s": math.nan}, "late_s = nan: not a finite number"),
        ({"rounds": [1]}, r"other\.rounds = \[1\]: not a number"),
        ({"buckets": [{**BUCKET, "rank": 1}]}, r"buckets\[0\]\.rank is no field of it"),
        ({"rounds": {1}}, "more than plain values: Object of type set"),
    ],
)
def test_what_is_of_another_type_is_named(counted, reason):
    with pytest.raises(ValueError, match=reason):
        account_of(WorkerAccount, {**DONE, **counted})


@pytest.mark.parametrize(
    "word",
    [
        words.Trained(
            WorkerAccount(**DONE, final_loss=math.inf, buckets=(BucketTotals(**BUCKET),))
        ),
        words.Served(ServerAccount(updates=3, late_by_worker_s={"worker0": 0.5})),
        words.Evaluated({"loss": math.inf, "accuracy": 0.5}),
        words.Refused(
            RefusedSteps(worker_steps=3, samples=30, refused=1, refused_because={"NaN": 1})
        ),
    ],
)
def test_accounts_arrive_as_they_were_said(word: words.Word):
    assert decode(encode(word), KNOWN) == word


def test_an_account_with_more_than_its_fields_is_no_word():
    text = b'{"kind":"served","account":{"updates":1,"more":2}}'
    with pytest.raises(BadWord, match=r"served\.account\.more is no field of it"):
        decode(text, KNOWN)
