"""Rows become Parquet files.

polars ends the process where memory cannot be allocated. Where address space is limited it runs in
a process of its own, so that a table may be lost, and not the result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paceline.errors import StoreError
from paceline.reading import untrusted
from paceline.store.whole_files import written_beside
from paceline.system import address_space
from paceline.system.interpreter import own_command

Row = dict[str, Any]

_MOST_S: Final = 300.0
# What polars and malloc map follows from the number of threads.
_SMALL: Final = {"POLARS_MAX_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write a table; no file where there are no rows."""
    if not rows:
        return
    if address_space.is_tight():
        _write_elsewhere({"path": str(path), "rows": rows})
    else:
        _write_rows(path, rows)


def write_losses(path: Path, files: Mapping[str, Path]) -> None:
    """Join the losses of every mini-batch, from the files of the seats that kept them."""
    if not files:
        return
    if address_space.is_tight():
        named = {seat: str(file) for seat, file in files.items()}
        _write_elsewhere({"path": str(path), "files": named})
    else:
        _write_losses(path, files)


def _write_rows(path: Path, rows: list[Row]) -> None:
    import polars

    # What never was, a loss or a link's counter, is a column of numbers all the same.
    whole = dict.fromkeys(("net_", "packets_", "memory_"), polars.Int64)
    kinds = {"loss_": polars.Float64, "cpu_": polars.Float64, **whole}
    known = {key: kind for key in rows[0] for start, kind in kinds.items() if key.startswith(start)}
    frame = polars.DataFrame(rows, infer_schema_length=None, schema_overrides=known)
    written_beside(path, frame.write_parquet)


def _write_losses(path: Path, files: Mapping[str, Path]) -> None:
    import numpy as np
    import polars

    frames = []
    for seat, file in files.items():
        with untrusted.opened(file) as opened:
            content = opened.read()
        losses = np.frombuffer(content[: len(content) // 4 * 4], dtype=np.float32)
        steps = np.arange(1, len(losses) + 1)
        frames.append(polars.DataFrame({"worker_step": steps, "loss": losses}))
        frames[-1].insert_column(0, polars.lit(seat).alias("seat"))
    written_beside(path, polars.concat(frames).write_parquet)


def _write_elsewhere(table: Mapping[str, Any]) -> None:
    """Have a process of its own write a table; `StoreError` where it does not."""
    try:
        done = subprocess.run(
            own_command("paceline.store.parquet_files"),
            input=json.dumps(table).encode(),
            env={**os.environ, **_SMALL},
            capture_output=True,
            timeout=_MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"it took more than {_MOST_S:g} s; {address_space.remark()}") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        why = f" ({untrusted.one_line(last)})" if last else ""
        raise StoreError(
            f"its process ended with code {done.returncode}{why}; {address_space.remark()}"
        )


def _main() -> None:
    """Write the table that standard input describes. Run as a module, by `_write_elsewhere`."""
    table = json.load(sys.stdin)
    path = Path(table["path"])
    if "rows" in table:
        _write_rows(path, table["rows"])
    else:
        _write_losses(path, {seat: Path(file) for seat, file in table["files"].items()})


if __name__ == "__main__":
    _main()
