"""States in files: read as they were written, and refused where they are not ours."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from paceline.errors import StateError, StoreError
from paceline.store.states import read_state, version_of, write_state
from paceline.testing.states import assert_equal

STATE = {
    "num_steps": 12,
    "loss": 0.1 + 0.2,
    "odd": float("nan"),
    "far": float("-inf"),
    "name": "ps-sync",
    "is_over": False,
    "limit": None,
    "nothing": {},
    "model": {
        "layer.weight": torch.randn(3, 4, dtype=torch.float64).t(),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "none": torch.empty(0, 2),
        "deeper": {"words": torch.arange(5, dtype=torch.uint8)},
    },
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "worker0.state"


def test_a_state_is_read_as_it_was_written(path):
    write_state(path, STATE)
    assert_equal(read_state(path), STATE)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32",
                                   "int16", "int8", "uint8", "bool"])  # fmt: skip
def test_every_dtype_is_read_as_the_library_reads_it(path, dtype):
    values = {"b": torch.arange(7).to(getattr(torch, dtype)), "a": torch.arange(3.0).double()}
    write_state(path, {**values, "number": 1})
    assert_equal(load_file(path), values)
    assert_equal(read_state(path), {**values, "number": 1})


def test_tensors_may_lie_in_one_stretch_of_memory(path):
    values = torch.arange(10.0)
    write_state(path, {"one": values[2:6], "other": values})
    assert_equal(read_state(path), {"one": values[2:6], "other": values})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b/c": 1}}, "a/b/c = 'b/c': a name is not empty and has no '/'"),
        ({"": 1}, "a name is not empty"),
        ({"a": [1, 2]}, "a = list: neither a number, nor text, nor a tensor"),
        ({"a": 1 << 63}, "a whole number beyond 64 bits"),
        ({"a": "bell\a"}, "text with control characters"),
        (
            {"a": torch.zeros(1, dtype=torch.complex64)},
            "a = torch.complex64: expected one of float64",
        ),
    ],
)
def test_what_could_not_be_read_again_is_not_written(path, state, message):
    with pytest.raises(StateError, match=message):
        write_state(path, state)
    assert not path.exists()


def _metadata(values="{}", kind="paceline state 1"):
    return {"format": kind, "values": values}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "its format is None; expected 'paceline state 1'"),
        (_metadata(kind="paceline state 9"), "its format is 'paceline state 9'"),
        (_metadata("{"), "Expecting"),
        (_metadata("[]"), "its values are no table"),
        (_metadata('{"a": [1]}'), "a is neither a number nor text"),
        (_metadata('{"a": {"b": 1}}'), "a is neither a number nor text"),
        (_metadata(json.dumps({"w": 1})), "w is there twice"),
        (_metadata(json.dumps({"w/x": 1})), "w = a field: is there twice"),
        (_metadata(json.dumps({"a": 1, "a/b": 1})), "a/b = a field: lies within"),
        (_metadata(json.dumps({"a/" * 40: 1})), "nested too deeply"),
        (_metadata("1" * 30), "beyond 64 bits"),
        (_metadata("[" * 100_000), "nested too deeply"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_with_its_name(path, metadata, message):
    save_file({"w": torch.zeros(2)}, path, metadata)
    with pytest.raises(StoreError, match=rf"worker0\.state: not a state: .*{message}"):
        read_state(path)


def test_a_damaged_file_is_refused(path):
    write_state(path, STATE)
    content = path.read_bytes()
    for damaged in (b"", content[:7], content[:-1], b"\xff" * 8 + content[8:], content + b"more"):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="not a state"):
            read_state(path)


def test_the_version_of_a_state_is_read_alone(path):
    write_state(path, {"version": 7, "values": torch.zeros(3), "part": {"version": 8}})
    assert version_of(path) == 7
    write_state(path, {"values": torch.zeros(3)})
    with pytest.raises(StoreError, match="does not say of which version"):
        version_of(path)
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(StoreError, match="not a state"):
        version_of(path)


def test_a_file_that_is_too_large_a_link_or_a_pipe_is_refused(path):
    write_state(path, STATE)
    with pytest.raises(StoreError, match="bytes; the limit is 100"):
        read_state(path, most_bytes=100)
    link, pipe = path.with_name("link"), path.with_name("pipe")
    link.symlink_to(path)
    os.mkfifo(pipe)
    for odd in (link, pipe, path.with_name("missing")):
        with pytest.raises(StoreError, match=odd.name):
            read_state(odd)
