"""TFRecord files of tf.Example records, against other programs' writers; bad ones are told."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.summary.writer.record_writer import RecordWriter

from paceline.errors import DataError
from paceline.workloads.data.sparse import example, example_writer, packed, tfrecord
from paceline.workloads.data.sparse.examples import Parsed
from paceline.workloads.data.sparse.files import kind_of, opened

NUM_FEATURES = 1000


def example_class():
    """tf.Example as protobuf's own library knows it."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, kind in (("F", kinds.TYPE_FLOAT), ("I", kinds.TYPE_INT64)):
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, label=3, type=kind)
    feature = file.message_type.add(name="Feature")
    for name, number in (("F", 2), ("I", 3)):
        feature.field.add(name=name, number=number, label=1, type=11, type_name=f".t.{name}")
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".t.Feature")
    name = ".t.Features.FeatureEntry"
    features.field.add(name="feature", number=1, label=3, type=11, type_name=name)
    whole = file.message_type.add(name="Example")
    whole.field.add(name="features", number=1, label=1, type=11, type_name=".t.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


EXAMPLE = example_class()


def message(index, value=None, label=(1,), label_kind="I", extra: str = "") -> bytes:
    made = EXAMPLE()
    features = made.features.feature
    features["index"].I.value.extend(index)
    if value is not None:
        features["value"].F.value.extend(value)
    getattr(features["label"], label_kind).value.extend(label)
    if extra:
        features[extra].F.value.extend([1.0, 2.0])
    return made.SerializeToString()


def written(path: Path, records: list[bytes]) -> Path:
    """By TensorBoard's writer."""
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for record in records:
            writer.write(record)
        writer.flush()
    return path


def read(path: Path, num_features: int = NUM_FEATURES) -> Parsed:
    (file,) = opened(path, path.parent / "cache")
    rows = [row for block in file.blocks for row in file.read(block)]
    return example.parse(rows, num_features)


index_lists = st.lists(st.integers(0, NUM_FEATURES + 5), max_size=5)


@given(
    st.lists(
        st.tuples(
            index_lists,
            st.booleans(),
            st.sampled_from([([1], "I"), ([0], "I"), ([-1], "I"), ([1.0], "F"), ([-1.0], "F")]),
            st.sampled_from(["", "extra", "other"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_protobuf_itself_writes_is_read(rows):
    records = [
        message(index, [1.5] * len(index) if has_values else None, *label, extra)
        for index, has_values, label, extra in rows
    ]
    found = example.parse([tfrecord.frame(each)[12:] for each in records], NUM_FEATURES)
    good = [row for row in rows if all(each < NUM_FEATURES for each in row[0])]
    assert len(found.bad) == len(rows) - len(good)
    examples = found.examples.as_vector()
    assert examples.labels.tolist() == [max(0, label[0][0]) for _, _, label, _ in good]
    assert examples.features.tolist() == [each for index, *_ in good for each in index]
    assert np.diff(examples.starts).tolist() == [len(index) for index, *_ in good]
    expected = [1.5 if has_values else 1.0 for index, has_values, *_ in good for _ in index]
    assert examples.values.tolist() == expected


def test_a_file_of_another_writer_is_known_by_how_it_begins_and_read(tmp_path):
    records = [message([number, 7], [0.5, 1], [number % 2]) for number in range(6)]
    path = written(tmp_path / "rows", records)
    assert kind_of(path).unit == "record"
    found = read(path)
    assert not found.bad
    assert found.examples.labels.tolist() == [0, 1] * 3
    assert found.examples.features.tolist() == [each for n in range(6) for each in (n, 7)]


def test_what_we_write_others_read(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    features = np.array([[1, 300, 2**28, 2**32 - 1], [0, 127, 128, 16_384]], np.uint32)
    path = tmp_path / "rows.tfrecord"
    path.write_bytes(b"".join(example_writer.framed(np.array([1.0, 0.0]), features)))
    records = [EXAMPLE.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
    lists = [record.features.feature for record in records]
    assert [list(each["index"].I.value) for each in lists] == features.tolist()
    assert [list(each["value"].F.value) for each in lists] == [[1.0] * 4] * 2
    assert [list(each["label"].I.value) for each in lists] == [[1], [0]]
    again = read(path, 2**32)
    assert again.examples.starts is None  # all rows as long, all values one: a matrix
    assert again.examples.features.tolist() == features.tolist()


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (message([1], [1.0], [2]), "label 2 is neither 0 nor 1 (nor -1)"),
        (message([1], [1.0], []), "label nothing is neither 0 nor 1 (nor -1)"),
        (message([1, 2], [1.0]), "it has 2 indices but 1 values"),
        (message([5000], [1.0]), "index 5,000 is not below num_features = 1,000"),
        (message([-4], [1.0]), "index -4 is not below num_features = 1,000"),
        (b"", "it has no index"),
        (b"\xff\xff\xff", "it is not a tf.Example: a number that does not end"),
        (b"\x0a\x7f\x00", "it is not a tf.Example: a field that goes on after its end"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",  # a map's bytes have no order
)
def test_what_is_wrong_with_a_record_is_told_and_the_others_are_read(tmp_path, record, told):
    good = message([3], [1.0])
    found = read(written(tmp_path / "rows", [good, record, good]))
    assert found.bad == {1: told}
    assert found.examples.features.reshape(-1).tolist() == [3, 3]


def test_lists_that_are_not_packed_are_read():
    entry = b"\x0a\x05index\x12\x06\x1a\x04\x08\x03\x08\x07"
    label = b"\x0a\x05label\x12\x04\x1a\x02\x08\x01"
    inner = b"".join(b"\x0a" + bytes([len(each)]) + each for each in (entry, label))
    assert example.parse_record(b"\x0a" + bytes([len(inner)]) + inner, 10) == (1.0, [3, 7], [1, 1])


def damaged(path: Path, place: int) -> Path:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)
    return path


def test_a_wrong_check_sum_is_told_by_record(tmp_path):
    record = message([3], [1.0])
    path = written(tmp_path / "rows", [record] * 3)
    length = len(record) + 16
    found = read(damaged(path, length + 20))
    assert found.bad == {1: "its checksum is wrong"}
    with pytest.raises(DataError, match=r"rows, record 3: the checksum of its length is wrong"):
        read(damaged(path, 2 * length + 1))


def test_a_file_that_is_cut_short_is_told_by_record(tmp_path):
    path = written(tmp_path / "rows", [message([3], [1.0])] * 3)
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(DataError, match=r"rows, record 3: cut short: 5 bytes are missing"):
        read(path)
    path.write_bytes(content[: len(content) * 2 // 3 + 3])
    with pytest.raises(DataError, match=r"rows, record 3: cut short: the file ends in its length"):
        read(path)


@pytest.mark.parametrize("at_once_bytes", [1, 7, 1 << 17])
def test_lists_are_read_the_same_however_many_at_a_time(at_once_bytes, monkeypatch):
    monkeypatch.setattr(packed, "_AT_ONCE_BYTES", at_once_bytes)
    chance = np.random.default_rng(2)
    lists = [chance.integers(0, NUM_FEATURES, chance.integers(0, 6)).tolist() for _ in range(40)]
    lists[7] = [1, NUM_FEATURES, 2]
    lists[11] = [2**60]
    records = [tfrecord.frame(message(each, [1.0] * len(each)))[12:] for each in lists]
    found = example.parse(records, NUM_FEATURES)
    good = [each for number, each in enumerate(lists) if number not in found.bad]
    assert [*found.bad] == [7, 11]
    assert found.examples.as_vector().features.tolist() == [each for row in good for each in row]


@pytest.mark.parametrize("num_long", [6_000, 30_000])
def test_a_long_record_between_short_ones_is_read(tmp_path, num_long):
    lists = [[1, 2], [number % NUM_FEATURES for number in range(num_long)], [], [3]]
    records = [message(each, [1.0] * len(each)) for each in lists]
    assert any(len(each) > 1 << 16 for each in records) == (num_long > 20_000)
    (file,) = opened(written(tmp_path / "rows", records), tmp_path / "cache")
    rows = file.read(file.blocks[0])
    assert [bytes(row[:-4]) for row in rows] == records
    assert np.diff(read(file.path).examples.starts).tolist() == [2, num_long, 0, 1]


def test_no_rows_at_all_are_none():
    assert len(example.parse([], NUM_FEATURES).examples) == 0
