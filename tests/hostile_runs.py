"""Run folders as somebody might make them who means harm, or a crash might leave them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars

from paceline.store.runs import RunDir
from tests.made_runs import made

Change = Callable[[RunDir], None]


def _result(**fields) -> Change:
    def change(run: RunDir) -> None:
        run.result.write_text(json.dumps(run.read_result() | fields))

    return change


def _text(name: str, text: str | bytes) -> Change:
    content = text if isinstance(text, bytes) else text.encode()
    return lambda run: (run.path / name).write_bytes(content) and None


def _pipe(name: str) -> Change:
    def change(run: RunDir) -> None:
        (run.path / name).unlink()
        os.mkfifo(run.path / name)

    return change


def _link(name: str, target: str) -> Change:
    def change(run: RunDir) -> None:
        (run.path / name).unlink()
        (run.path / name).symlink_to(target)

    return change


def _huge(name: str) -> Change:
    return lambda run: os.truncate(run.path / name, 1 << 40)


def _unsealed(facts: object) -> Change:
    def change(run: RunDir) -> None:
        run.result.unlink()
        run.records.mkdir()
        run.driver.write_text(json.dumps({"pid": 1, "facts": facts}))

    return change


FACTS = {
    "workload": "w",
    "strategy": "s",
    "cluster": "c",
    "meaning": "m",
    "num_workers": 1,
    "batch_size": 1,
    "seed": 0,
    "target": None,
    "seats": {"node0": ["worker0"]},
    "num_cores": {"node0": 1.0},
    "tensorboard": False,
}

READABLE: dict[str, Change] = {
    "markup": _result(workload="[bold]x[/nothing]", strategy="[/]", reason="[red"),
    "escapes": _result(workload="\x1b]0;owned\x07\x1b[2J", warnings=["\x1b[31mred", "\u202e"]),
    "surrogate": _result(workload="\ud800", meaning="\udfff"),
    "no seconds": _result(train_s=0.0, steps_per_s=0.0),
    "many lines": _result(workload="a\nb\nc" * 1000),
    "no environment": _text("environment.json", "[1"),
    "odd environment": _text("environment.json", '{"cpu": 3, "memory": {"total_bytes": "x"}}'),
    "deep spec": _text("spec.toml", "a = " + "[" * 100_000),
    "bytes for a spec": _text("spec.toml", b"\xff\x1b[2J"),
}
UNREADABLE: dict[str, Change] = {
    "wrong types": _result(workload=3),
    "a billion workers": _result(num_workers=10**9),
    "no worker": _result(num_workers=0),
    "workers of words": _result(workers=["x"]),
    "nodes of nothing": _result(nodes=None),
    "infinite": _text("result.json", '{"train_s": 1e999, "run": 1}'),
    "deep": _text("result.json", '{"a":' * 50_000),
    "a list": _text("result.json", "[]"),
    "empty": _text("result.json", ""),
    "a huge number": _result(samples=10**30),
    "pipe": _pipe("result.json"),
    "device": _link("result.json", "/dev/zero"),
    "link": _link("result.json", "/etc/hostname"),
    "huge file": _huge("result.json"),
    "a billion workers to seal": _unsealed(FACTS | {"num_workers": 10**9}),
    "facts of words": _unsealed("x"),
    "seats that are paths": _unsealed(FACTS | {"seats": {"../../x": ["worker0"]}}),
}


def hostile(out: Path, change: Change) -> RunDir:
    """Make a good run, and change it."""
    run = made(out).folder
    change(run)
    return run


def thirty_million_rows(run: RunDir) -> None:
    rows = 30_000_000
    frame = polars.select(time_s=polars.repeat(1.0, rows), progress=polars.repeat(1, rows))
    frame.write_parquet(run.evaluations)
