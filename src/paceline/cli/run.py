"""`paceline run`."""

from __future__ import annotations

import json
import signal
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from paceline.cli.options import joined
from paceline.errors import Problem, RunError, SpecError

if TYPE_CHECKING:
    from paceline.results import Result

HELP = """Train a WORKLOAD once, measured, and keep the run.

Settings that are not given are the workload's own. Every field of the spec can be reached with \
--set, for example --set optimizer.name=adam.

Examples:

  paceline run logistic-mnist --epochs 10

  paceline run lenet-mnist --epochs 3 --eval-every 500 --target-accuracy 0.98

  paceline run synthetic --strategy solo --workers 2 --set workload.bytes=233MB --seconds 10

  paceline run resnet50-cifar10 --device replay:k80 --strategy ring --workers 2 --steps 20
"""

_HOW_LONG = "How long (one of these; default: one epoch)"
_WHAT = "What and where"


def spec_options(  # noqa: PLR0917 - each is an option on the command line
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="One that `paceline workloads` lists, a class of your own "
            "(my_model.py:MyWorkload), or the spec.toml of an earlier run.",
            show_default=False,
        ),
    ],
    more_settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", hidden=True)
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="How gradients update the parameters: single (the default), solo, "
            "ring, ddp, ps-async, "
            "ps-sync, ps-ssp, or your own file.py:Class.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of workers.", rich_help_panel=_WHAT)
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Where processes run: local, emulated (nodes with links of their own, on this "
            "machine), or inline for a debugger.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            help="Number of emulated nodes; without --workers, also the number of "
            "workers (default: one per worker).",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Bandwidth of each emulated node's link, in each direction, such as "
            "1gbit or 100mbit.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Delay of every packet between emulated nodes, such as 5ms.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="B|all", help="Rows per worker per step.", rich_help_panel=_WHAT),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", rich_help_panel=_WHAT)] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the initial values and of the data order.", rich_help_panel=_WHAT
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The cache folder of `paceline data get`.", rich_help_panel=_WHAT),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cpu|replay:k80|replay:FILE",
            help="What computes: this CPU, or replayed times of another device.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    dilation: Annotated[
        float | None,
        typer.Option(
            metavar="K",
            help="With replay: make compute and links K times slower, and count virtual seconds.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Updates of the shared parameters.", rich_help_panel=_HOW_LONG),
    ] = None,
    worker_steps: Annotated[
        int | None, typer.Option(help="Mini-batches per worker.", rich_help_panel=_HOW_LONG)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Rows, all workers together.", rich_help_panel=_HOW_LONG)
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the data, all workers together.", rich_help_panel=_HOW_LONG),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds of training; evaluations do not count.", rich_help_panel=_HOW_LONG
        ),
    ] = None,
    target_accuracy: Annotated[
        float | None, typer.Option(help="Stop at this test accuracy, 0 to 1.")
    ] = None,
    target_loss: Annotated[float | None, typer.Option(help="Stop at this test loss.")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME>=X|NAME<=X",
            help="Stop when any metric of the workload reaches a level, such as 'mae<=0.2'; "
            "several must all be reached.",
        ),
    ] = None,
    eval_every: Annotated[
        int | None,
        typer.Option(
            help="Evaluate every N global steps (solo: steps per worker); this time "
            "does not count as training."
        ),
    ] = None,
    eval_samples: Annotated[
        int | None, typer.Option(help="Evaluate on N test rows; default: all.")
    ] = None,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Profile a few steps by operator; slows those steps."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Set any field of the spec; more may follow: --set a=1 b=2.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Make the table of a spec out of options; other commands take the same."""
    flags = {
        "num_workers": workers,
        "batch": batch,
        "seed": seed,
        "device": device,
        "dilation": dilation,
        "steps": steps,
        "worker_steps": worker_steps,
        "samples": samples,
        "epochs": epochs,
        "seconds": seconds,
        "target_accuracy": target_accuracy,
        "target_loss": target_loss,
        "target": target or None,
        "eval_every": eval_every,
        "eval_samples": eval_samples,
        "strategy.name": strategy,
        "cluster.name": cluster,
        "cluster.nodes": nodes,
        "cluster.link": link,
        "cluster.latency_s": latency,
        "optimizer.lr": lr,
        "workload.data_dir": str(data_dir) if data_dir else None,
        "record.profile": profile or None,
    }
    given = {field: value for field, value in flags.items() if value is not None}
    settings = [*(set_ or []), *(more_settings or [])]
    return spec_table(workload, given, settings)


def _run(
    table: dict[str, Any],
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    json_: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object, on the last line.")
    ] = False,
) -> None:
    _carry_out(table, out, json_)


run = joined(spec_options, _run)


def _carry_out(table: dict[str, Any], out: Path, as_json: bool) -> None:
    from paceline import driver
    from paceline.cli.live import watching
    from paceline.cli.summary import print_result
    from paceline.spec import RunSpec

    spec = RunSpec.from_table(table)
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    try:
        with watching(spec) as watch:
            result = driver.run(spec, out=out, watch=watch)
    except RunError as error:
        if error.result is not None:
            print_result(error.result)
            if as_json:
                _print_json(error.result)
        raise
    print_result(result)
    if as_json:
        _print_json(result)


def _print_json(result: Result) -> None:
    print(json.dumps(result.table()))  # noqa: T201
    sys.stdout.flush()


def interrupt_on(*signals: int) -> None:
    """Being asked to end is answered like Ctrl-C: stop, keep what there is, seal."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    for each in signals:
        if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(each, interrupt)


def spec_table(workload: str, given: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Join a spec file, flags and --set, the later over the earlier."""
    from paceline.spec import LENGTHS, read_toml

    table: dict[str, Any] = {}
    if workload.endswith(".toml"):
        table = read_toml(Path(workload))
        chosen = {*given, *(setting.partition("=")[0] for setting in settings)}
        if chosen.intersection(LENGTHS):
            table = {key: value for key, value in table.items() if key not in LENGTHS}
    else:
        table["workload"] = {"name": workload}
    for field, value in given.items():
        put(table, field, value)
    problems = []
    for setting in settings:
        field, equals, text = setting.partition("=")
        if equals and field:
            if field.strip() == "workload.name":
                _forget_the_workloads_choices(table, value_of(text))
            put(table, field.strip(), value_of(text))
        else:
            problems.append(Problem("--set", setting, "not of the form FIELD=VALUE"))
    if problems:
        raise SpecError(problems)
    return table


def put(table: dict[str, Any], field: str, value: object) -> None:
    """Set `a.b.c` in nested tables. Another name for a part drops the old part's fields."""
    *path, last = field.split(".")
    for key in path:
        inner = table.get(key)
        inner = {"name": inner} if isinstance(inner, str) else inner  # a part by its name alone
        if not isinstance(inner, dict | None):
            raise _clash(field, value, f"{key} = {inner!r} is given too")
        table[key] = table = dict(inner or {})
    if path and isinstance(table.get(last), dict) and not isinstance(value, dict):
        raise _clash(field, value, f"{', '.join(table[last])} of it are given too")
    if last == "name" and table.get("name", value) != value:
        table.clear()
    table[last] = value


def _clash(field: str, value: object, what: str) -> SpecError:
    """One value for all and values for some, where nobody can say which was meant."""
    return SpecError([Problem(field, value, f"{what}: give one value for all, or one for each")])


def _forget_the_workloads_choices(table: dict[str, Any], workload: object) -> None:
    """Another workload than the file's brings its own optimizer and batch."""
    kept = table.get("workload")
    if isinstance(kept, dict) and kept.get("name") != workload:
        table.pop("optimizer", None)
        table.pop("batch", None)


def value_of(text: str) -> object:
    """Read a value as TOML has it; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
