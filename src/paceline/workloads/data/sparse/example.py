"""tf.Example records of `index`, `value` and `label`, read without TensorFlow.

Many records are read in step: at each point of the format, all of them at once. One that is
unusual in any way is left to `parse_record`, which is slow, and the word on what is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.workloads.data.sparse import protobuf
from paceline.workloads.data.sparse.examples import (
    Array,
    Examples,
    Parsed,
    concatenated,
    places_of,
    starts_of,
)
from paceline.workloads.data.sparse.raw_rows import RawRows
from paceline.workloads.data.sparse.tfrecord import CRC_BYTES, are_intact

# Tags: the number of a field and how its content is written.
_FIRST, _SECOND = 0x0A, 0x12
_FLOATS, _INTEGERS = 0x12, 0x1A
KEYS = (b"index", b"value", b"label")
_INDEX, _VALUE, _LABEL = range(3)
_KEY_WORDS = [np.uint64(int.from_bytes(key, "little")) for key in KEYS]
_KEY_BYTES = 5
_KEY_MASK = np.uint64((1 << 8 * _KEY_BYTES) - 1)
_MOST_ENTRIES = 8
# Bytes of a number below 2^35.
_MOST_VARINT = 5
_PADDING = bytes(16)
# Of lists of integers, so many bytes are read at a time: what is made of them stays in the cache.
_AT_ONCE_BYTES = 1 << 17
_SEVEN_BITS = np.uint64(0x7F)
# By a number's length: its own bytes of a word.
_BYTES = np.array([(1 << 8 * size) - 1 for size in range(8)], np.uint64)
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
    for content in protobuf.messages(feature, _FLOATS >> 3):
        return protobuf.floats(content)
    for content in protobuf.messages(feature, _INTEGERS >> 3):
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
    content = np.frombuffer(records.content + _PADDING, np.uint8)
    lists = _lists(content, records.begins, records.stops - CRC_BYTES)
    labels, has_label = _labels(content, lists)
    is_usual = is_good & lists.is_usual & has_label
    is_usual &= (lists.kinds[_INDEX] == _INTEGERS) & (lists.kinds[_VALUE] == _FLOATS)
    numbers = np.flatnonzero(is_usual)
    spans = [(lists.begins[key][numbers], lists.lengths[key][numbers]) for key in (_INDEX, _VALUE)]
    index, counts, is_small = _varints(records.content, *spans[_INDEX])
    # Rows whose two lists differ in length, or hold too large numbers, are not ours to judge.
    fits = (spans[_VALUE][1] == 4 * counts) & is_small
    if not fits.all():
        is_usual[numbers[~fits]] = False
        return _usual(records, is_usual, num_features)
    too_large = index >= num_features
    if too_large.any():
        is_usual[numbers[np.repeat(np.arange(len(counts)), counts)[too_large]]] = False
        return _usual(records, is_usual, num_features)
    values = _floats(content, *spans[_VALUE])
    examples = Examples(labels[numbers], index.astype(np.uint32), starts_of(counts), values)
    return is_usual, examples


class _Lists(NamedTuple):
    """The lists of many Examples: for each key, of each record."""

    kinds: Array
    begins: Array
    lengths: Array
    is_usual: Array


def _lists(content: Array, at: Array, stops: Array) -> _Lists:
    """Walk through many Examples in step and note where each list's numbers are."""
    num_rows = len(at)
    kinds, begins, lengths = (np.zeros((len(KEYS), num_rows), np.int64) for _ in range(3))
    tag, length, at = _inner(content, at)
    is_usual = (tag == _FIRST) & (at + length == stops)
    for _ in range(_MOST_ENTRIES):
        is_open = is_usual & (at < stops)
        if not is_open.any():
            break
        entry = _entry(content, np.where(is_open, at, 0))
        is_usual &= entry.is_usual | ~is_open
        for key, word in enumerate(_KEY_WORDS):
            is_this = is_open & (entry.key == word)
            is_usual &= ~(is_this & (kinds[key] != 0))  # the last of two would count
            kinds[key][is_this] = entry.kind[is_this]
            begins[key][is_this] = entry.begin[is_this]
            lengths[key][is_this] = entry.length[is_this]
        at = np.where(is_open, entry.stop, at)
    return _Lists(kinds, begins, lengths, is_usual & (at == stops))


class _Entry(NamedTuple):
    """One entry of each Example's map."""

    key: Array
    kind: Array
    begin: Array
    length: Array
    stop: Array
    is_usual: Array


def _entry(content: Array, at: Array) -> _Entry:
    """Read an entry of each Example's map: a key of five letters, and a packed list."""
    tag, length, at = _inner(content, at)
    stop = at + length
    is_usual = tag == _FIRST
    tag, length, at = _inner(content, at)
    is_usual &= (tag == _FIRST) & (length == _KEY_BYTES)
    key = _word(content, at) & _KEY_MASK
    tag, length, at = _inner(content, at + _KEY_BYTES)
    is_usual &= (tag == _SECOND) & (at + length == stop)
    kind, length, at = _inner(content, at)
    is_usual &= ((kind == _FLOATS) | (kind == _INTEGERS)) & (at + length == stop)
    tag, length, at = _inner(content, at)
    is_usual &= (tag == _FIRST) & (at + length == stop)
    return _Entry(key, kind, at, length, stop, is_usual)


def _inner(content: Array, at: Array) -> tuple[Array, Array, Array]:
    """The tag and the length of what begins here, and where its content begins."""
    at = np.minimum(at, len(content) - len(_PADDING))
    tag = content[at].astype(np.int64)
    length, at = _lengths(content, at + 1)
    return tag, length, at


def _word(content: Array, at: Array) -> Array:
    """Eight bytes as one number."""
    first = content[:8].view(np.uint64)
    words = np.lib.stride_tricks.as_strided(first, (len(content) - 7,), (1,))
    found: Array = words[np.minimum(at, len(content) - len(_PADDING))]
    return found


def _lengths(content: Array, at: Array) -> tuple[Array, Array]:
    """A length of at most three bytes each, and where it ends; longer ones come out wrong."""
    value = np.zeros(len(at), np.int64)
    goes_on = np.ones(len(at), bool)
    for place in range(3):
        byte = content[at].astype(np.int64)
        value |= np.where(goes_on, (byte & 0x7F) << 7 * place, 0)
        at = at + goes_on
        goes_on &= byte >= 0x80
    return value, at


def _labels(content: Array, lists: _Lists) -> tuple[Array, Array]:
    """Labels, where they are one number: an integer 0, 1 or -1, or a float of that worth."""
    begins, lengths, kinds = (each[_LABEL] for each in (lists.begins, lists.lengths, lists.kinds))
    first = content[begins]
    as_float = content[begins[:, None] + np.arange(4)].view(np.float32)[:, 0]
    is_integer, is_float = kinds == _INTEGERS, (kinds == _FLOATS) & (lengths == 4)
    is_minus = is_integer & (lengths == len(_MINUS_ONE))
    is_minus &= (content[begins[:, None] + np.arange(len(_MINUS_ONE))] == _MINUS_ONE).all(1)
    is_one = is_integer & (lengths == 1) & (first == 1) | is_float & (as_float == 1)
    is_zero = is_integer & (lengths == 1) & (first == 0)
    is_zero |= is_float & ((as_float == 0) | (as_float == -1))
    return is_one.astype(np.float32), is_one | is_zero | is_minus


def _varints(content: bytes, begins: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """All numbers of packed lists, how many each list has, and whether all of them are small."""
    num_lists = len(begins)
    step = max(1, num_lists * _AT_ONCE_BYTES // max(1, int(lengths.sum())))
    parts = [slice(first, first + step) for first in range(0, max(1, num_lists), step)]
    found = [_neighbouring_varints(content, begins[part], lengths[part]) for part in parts]
    numbers, counts, is_small = (np.concatenate(each) for each in zip(*found, strict=True))
    return numbers, counts, is_small


def _neighbouring_varints(
    content: bytes, begins: Array, lengths: Array
) -> tuple[Array, Array, Array]:
    spans = zip(begins.tolist(), (begins + lengths).tolist(), strict=True)
    own = np.frombuffer(b"".join([*[content[a:b] for a, b in spans], _PADDING]), np.uint8)
    stops = np.cumsum(lengths)
    lasts = np.flatnonzero(own[: -len(_PADDING)] < 0x80)
    counts = np.diff(np.searchsorted(lasts, stops), prepend=0)
    # A list that ends within a number has none of its own that is last there.
    is_small = (lengths == 0) | (own[stops - 1] < 0x80)
    if not is_small.all() or not len(lasts):
        return lasts, counts, is_small
    sizes = np.diff(lasts, prepend=-1)
    most = int(sizes.max())
    if most > _MOST_VARINT:
        owners = np.repeat(np.arange(len(counts)), counts)
        is_small[owners[sizes > _MOST_VARINT]] = False
        return lasts, counts, is_small
    return _joined(_word(own, lasts + 1 - sizes) & _BYTES[sizes], most), counts, is_small


def _joined(words: Array, most_bytes: int) -> Array:
    """Join the seven bits that each byte of a number has; none has more bytes than that."""
    numbers = words & _SEVEN_BITS
    for place in range(1, most_bytes):
        words >>= np.uint64(1)
        numbers |= words & (_SEVEN_BITS << np.uint64(7 * place))
    return numbers.view(np.int64)


def _floats(content: Array, begins: Array, lengths: Array) -> Array:
    """All numbers of packed lists of floats, one behind the other."""
    if len(lengths) and (lengths == lengths[0]).all() and lengths[0] > 0:
        size = int(lengths[0])
        shape = (len(content) - size + 1, size)
        stretches = np.lib.stride_tricks.as_strided(content, shape, (1, 1))
        return np.ascontiguousarray(stretches[begins]).reshape(-1).view(np.float32)
    return content[places_of(begins, lengths)].view(np.float32)
