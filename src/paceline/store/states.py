"""States as files: one safetensors file each, with all that is no tensor as JSON in its header.

One file, so that it is there whole or not at all. No pickle: what is read is numbers and text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, final

from paceline.errors import StateError, StoreError
from paceline.reading.untrusted import MOST_JSON_BYTES, one_line, opened, parsed_json, visible
from paceline.store.direct import DirectFile
from paceline.store.whole_files import written_beside
from paceline.training.state import State, Value

if TYPE_CHECKING:
    from torch import Tensor

MOST_STATE_BYTES: Final = 1 << 36
"""A file that is larger is no state of ours; whoever knows how large a state is says so."""

_FORMAT: Final = "paceline state 1"
_BETWEEN: Final = "/"
_MOST_FIELDS: Final = 100_000
_MOST_DEPTH: Final = 32
_ALIGNED_BYTES: Final = 8
_DTYPES: Final = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


class _Writable(Protocol):
    """What a state is written to."""

    def write(self, data: Any, /) -> object: ...


@final
@dataclass(frozen=True)
class WrittenFile:
    """A file that was written."""

    num_bytes: int
    digest: str
    """SHA-256, in hex."""


@final
class _Summing:
    """Sums up what is written."""

    def __init__(self, file: _Writable) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self._num_bytes = 0

    def write(self, data: Any, /) -> None:
        self._file.write(data)
        self._sum.update(data)
        self._num_bytes += len(data)

    def written(self) -> WrittenFile:
        return WrittenFile(self._num_bytes, self._sum.hexdigest())


def write_state(path: Path, state: State) -> None:
    """Write a state, under its name only when it is complete. Raises `StateError`, `StoreError`."""
    tensors, metadata = _laid_out(state)
    try:
        written_beside(path, lambda file: _write(file, tensors, metadata))
    except OSError as error:
        raise StoreError(f"{path}: the state cannot be written: {error}") from error


def save_state(path: Path, state: State) -> WrittenFile:
    """Write a state to a new file, and say how it can be told whether that is whole."""
    tensors, metadata = _laid_out(state)
    with DirectFile(path) as file:
        summing = _Summing(file)
        _write(summing, tensors, metadata)
    return summing.written()


def _laid_out(state: State) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Give the tensors of a state, and all else as text."""
    flat = dict(_flattened(state))
    tensors = {name: value for name, value in flat.items() if _is_tensor(value)}
    others = {name: value for name, value in flat.items() if name not in tensors}
    return tensors, {"format": _FORMAT, "values": json.dumps(others, separators=(",", ":"))}


def _write(file: _Writable, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write as safetensors does: a header of JSON and its length before it, then the bytes.

    Not by the library, which copies all tensors before it writes the first.
    """
    # Widest first, so that each begins where its dtype may.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name in order:
        each, stop = tensors[name], start + tensors[name].nbytes
        dtype, shape = _dtype(name, each), list(each.shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED_BYTES)
    file.write(len(text).to_bytes(_ALIGNED_BYTES, "little"))
    file.write(text)
    for name in order:
        file.write(_bytes_of(tensors[name]))


def _dtype(name: str, value: Tensor) -> str:
    """Give the format's word for a dtype."""
    word = _DTYPES.get(str(value.dtype).removeprefix("torch."))
    if word is None:
        raise StateError(name, str(value.dtype), f"expected one of {', '.join(_DTYPES)}")
    return word


def _bytes_of(value: Tensor) -> memoryview:
    import torch

    return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data


def read_state(path: Path, most_bytes: int = MOST_STATE_BYTES) -> dict[str, Value]:
    """Read a state that `write_state` wrote. Raises `StoreError`, which names the file."""
    from safetensors import SafetensorError

    try:
        with opened(path) as file:
            return _nested(_read(file, most_bytes))
    except (OSError, ValueError, SafetensorError) as error:
        raise StoreError(f"{path}: not a state: {one_line(str(error))}") from error
    except StateError as error:
        raise StoreError(f"{path}: not a state: {error}") from error


def version_of(path: Path) -> int:
    """Read only the version of a state that says of which it is. Raises `StoreError`."""
    try:
        with opened(path) as file:
            num_bytes = int.from_bytes(file.read(_ALIGNED_BYTES), "little")
            # One that is longer is cut off here, and no JSON then.
            header: Any = parsed_json(file.read(min(num_bytes, MOST_JSON_BYTES)).decode())
        version = _values(header["__metadata__"]).get("version")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a state: {one_line(str(error))}") from error
    if not isinstance(version, int):
        raise StoreError(f"{path}: it does not say of which version it is")
    return version


def _read(file: BinaryIO, most_bytes: int) -> dict[str, Value]:
    """Read all fields, each under its whole name."""
    from safetensors import safe_open

    num_bytes = file.seek(0, 2)
    if num_bytes > most_bytes:
        raise ValueError(f"{num_bytes:,} bytes; the limit is {most_bytes:,}")
    # By its descriptor: under its name there may be another file by now.
    with safe_open(f"/proc/self/fd/{file.fileno()}", framework="pt") as opened_file:
        values = _values(opened_file.metadata() or {})
        names = opened_file.keys()
        if len(names) + len(values) > _MOST_FIELDS:
            raise ValueError(f"{len(names) + len(values):,} fields; the limit is {_MOST_FIELDS:,}")
        if both := values.keys() & set(names):
            raise ValueError(f"{min(both)} is there twice")
        return values | {visible(name): opened_file.get_tensor(name) for name in names}


def _values(metadata: Mapping[str, str]) -> dict[str, Value]:
    """Read all that is no tensor."""
    if metadata.get("format") != _FORMAT:
        raise ValueError(f"its format is {metadata.get('format')!r}; expected {_FORMAT!r}")
    text = metadata.get("values", "")
    if len(text) > MOST_JSON_BYTES:
        raise ValueError(f"more than {MOST_JSON_BYTES:,} bytes of values")
    values = parsed_json(text)
    if not isinstance(values, dict):
        raise ValueError("its values are no table")  # noqa: TRY004 - what a file holds is a value
    for name, value in values.items():
        if isinstance(value, list) or (isinstance(value, dict) and value):
            raise ValueError(f"{name} is neither a number nor text")
    return values


def _flattened(state: State, within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value under its whole name; an empty table is a value of its own."""
    for name, value in state.items():
        whole = f"{within}{name}"
        if not name or _BETWEEN in name or visible(name) != name:
            raise StateError(whole, repr(name), f"a name is not empty and has no {_BETWEEN!r}")
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{whole}{_BETWEEN}")
        else:
            _check(whole, value)
            yield whole, value


def _check(name: str, value: Value) -> None:
    """Say what would not be read as it was written."""
    if isinstance(value, str) and visible(value) != value:
        raise StateError(name, one_line(repr(value)), "text with control characters")
    plain = value is None or isinstance(value, (bool, int, float, str, Mapping))
    if not plain and not _is_tensor(value):
        raise StateError(name, type(value).__name__, "neither a number, nor text, nor a tensor")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise StateError(name, str(value), "a whole number beyond 64 bits")


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _nested(flat: Mapping[str, Value]) -> dict[str, Value]:
    """Put values back into their tables."""
    state: dict[str, Any] = {}
    for whole, value in flat.items():
        *tables, name = whole.split(_BETWEEN, _MOST_DEPTH)
        if _BETWEEN in name:
            raise ValueError("nested too deeply")
        table = state
        for each in tables:
            table = table.setdefault(each, {})
            if not isinstance(table, dict):
                raise StateError(whole, "a field", "lies within a field that is no table")
        if name in table:
            raise StateError(whole, "a field", "is there twice")
        table[name] = value
    return state
