"""tf.Example records of `index`, `value` and `label`, read without TensorFlow.

Many records are read in step: at each point of the format, all of them at once. One that is
unusual in any way is left to `parse_record`, which is slow, and the word on what is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.workloads.data.sparse import protobuf
from paceline.workloads.data.sparse.examples import (
    Array,
    Examples,
    Parsed,
    concatenated,
    starts_of,
)
from paceline.workloads.data.sparse.lists import (
    FLOATS,
    INDEX,
    INTEGERS,
    LABEL,
    VALUE,
    Lists,
    lists_of,
)
from paceline.workloads.data.sparse.packed import Content, floats, integers
from paceline.workloads.data.sparse.raw_rows import RawRows
from paceline.workloads.data.sparse.tfrecord import CRC_BYTES, are_intact

_MINUS_ONE = np.frombuffer(b"\xff" * 9 + b"\x01", np.uint8)
_LABELS = {-1.0: 0.0, 0.0: 0.0, 1.0: 1.0}


def parse(records: Sequence[bytes], num_features: int) -> Parsed:
    """Read records, each with its checksum behind it."""
    records = RawRows.of(records)
    is_good = are_intact(records)
    bad = dict.fromkeys(np.flatnonzero(~is_good).tolist(), "its checksum is wrong")
    usual, examples = _usual(records, is_good, num_features)
    others: list[tuple[int, float, list[int], list[float]]] = []
    for number in np.flatnonzero(is_good & ~usual).tolist():
        try:
            others.append((number, *parse_record(records[number][:-CRC_BYTES], num_features)))
        except ValueError as error:
            bad[number] = str(error)
    if others:
        numbers = np.concatenate([np.flatnonzero(usual), [each[0] for each in others]])
        examples = concatenated([examples, _examples(others)]).take(np.argsort(numbers))
    return Parsed(examples.as_matrix(), bad)


def parse_record(message: bytes, num_features: int) -> tuple[float, list[int], list[float]]:
    """Read one record: its label, features and their values. ValueError says what is wrong."""
    lists = dict(_features(message))
    missing = [key.decode() for key in (b"index", b"label") if key not in lists]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
    index, label = lists[b"index"], lists[b"label"]
    if any(not isinstance(each, int) for each in index):
        raise ValueError("its index is not a list of integers")
    value = lists.get(b"value", [1.0] * len(index))
    if len(value) != len(index):
        raise ValueError(f"it has {len(index)} indices but {len(value)} values")
    for each in index:
        if not 0 <= each < num_features:
            raise ValueError(f"index {each:,} is not below num_features = {num_features:,}")
    if len(label) != 1 or label[0] not in _LABELS:
        shown = ", ".join(f"{each:g}" for each in label[:3])
        raise ValueError(f"label {shown or 'nothing'} is neither 0 nor 1 (nor -1)")
    return _LABELS[label[0]], [int(each) for each in index], [float(each) for each in value]


def _features(message: bytes) -> list[tuple[bytes, Sequence[float]]]:
    """The lists of an Example by their keys."""
    found = []
    for features in protobuf.messages(message, 1):
        for entry in protobuf.messages(features, 1):
            keys, values = protobuf.messages(entry, 1), protobuf.messages(entry, 2)
            found += [(key, _list(feature)) for key, feature in zip(keys, values, strict=False)]
    return found


def _list(feature: bytes) -> Sequence[float]:
    """The numbers of a Feature; none if it holds bytes."""
    for content in protobuf.messages(feature, FLOATS >> 3):
        return protobuf.floats(content)
    for content in protobuf.messages(feature, INTEGERS >> 3):
        return protobuf.integers(content)
    return []


def _examples(rows: Sequence[tuple[int, float, list[int], list[float]]]) -> Examples:
    lengths = np.array([len(index) for _, _, index, _ in rows])
    return Examples(
        np.array([label for _, label, _, _ in rows], np.float32),
        np.concatenate([np.array(index, np.uint32) for _, _, index, _ in rows]),
        starts_of(lengths),
        np.concatenate([np.array(value, np.float32) for _, _, _, value in rows]),
    )


def _usual(records: RawRows, is_good: Array, num_features: int) -> tuple[Array, Examples]:
    """Say which records are as TensorFlow itself writes them, and read those."""
    content = Content(records.content)
    lists = lists_of(content, records.begins, records.stops - CRC_BYTES)
    labels, has_label = _labels(content, lists)
    is_usual = is_good & lists.is_usual & has_label
    is_usual &= (lists.kinds[INDEX] == INTEGERS) & (lists.kinds[VALUE] == FLOATS)
    is_usual &= lists.lengths[VALUE] & 3 == 0
    while True:
        numbers = np.flatnonzero(is_usual)
        begins, lengths = (each[:, numbers] for each in (lists.begins, lists.lengths))
        counts = lengths[VALUE] >> 2
        found = integers(records.content, begins[INDEX], lengths[INDEX], counts)
        # Rows whose two lists differ in length, or hold too large numbers, are not ours to judge.
        fits = found.fits
        if fits.all():
            too_large = found.numbers >= num_features
            if not too_large.any():
                break
            fits[np.repeat(np.arange(len(counts)), counts)[too_large]] = False
        is_usual[numbers[~fits]] = False
    values = floats(content.own, begins[VALUE], lengths[VALUE])
    features = found.numbers.astype(np.uint32, copy=False)
    return is_usual, Examples(labels[numbers], features, starts_of(counts), values)


def _labels(content: Content, lists: Lists) -> tuple[Array, Array]:
    """Labels, where they are one number: an integer 0, 1 or -1, or a float of that worth."""
    begins, lengths, kinds = (each[LABEL] for each in (lists.begins, lists.lengths, lists.kinds))
    first = content.bytes(begins, 1)[:, 0]
    if ((kinds == INTEGERS) & (lengths == 1)).all():  # as mostly: nothing else to look at
        return first.astype(np.float32), first <= 1
    as_float = content.bytes(begins, 4).view(np.float32)[:, 0]
    is_integer, is_float = kinds == INTEGERS, (kinds == FLOATS) & (lengths == 4)
    is_minus = is_integer & (lengths == len(_MINUS_ONE))
    is_minus &= (content.bytes(begins, len(_MINUS_ONE)) == _MINUS_ONE).all(1)
    is_one = is_integer & (lengths == 1) & (first == 1) | is_float & (as_float == 1)
    is_zero = is_integer & (lengths == 1) & (first == 0)
    is_zero |= is_float & ((as_float == 0) | (as_float == -1))
    return is_one.astype(np.float32), is_one | is_zero | is_minus
