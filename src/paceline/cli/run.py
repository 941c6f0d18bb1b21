"""`paceline run`."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from paceline.cli.lazy import passed_on
from paceline.cli.options import with_options
from paceline.errors import Problem, RunError, SpecError
from paceline.settings import Asked, Fields

if TYPE_CHECKING:
    from paceline.engine.origin import Origin
    from paceline.outcome.results import Result
    from paceline.spec import RunSpec

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
            "(my_model.py:MyWorkload), a training script (train.py), whose own arguments come "
            "after --, or the spec.toml of an earlier run.",
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
            "ps-sync, ps-ssp, own (a script's own process group; its default), or your own "
            "file.py:Class.",
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
            "machine), ssh, torchrun, ray or manual (real machines), or inline for a debugger.",
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
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="With --cluster ssh: the machines, as ssh takes them (a, user@b); each is a node. "
            "Without --workers, one worker per host.",
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
            help="Delay between emulated nodes, such as 5ms: of every packet, or, if the kernel "
            "has no sch_netem, of every message.",
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
            metavar="cpu|replay:k80|replay:FILE|cuda",
            help="What computes: this CPU, or replayed times of another device. cuda, cuda:0: a "
            "GPU; experimental, never run on one.",
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
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="N|Ts",
            help="Keep what the run can be resumed from every N global steps, or every T seconds "
            "(10s): see `paceline resume`.",
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND:WHO@WHEN",
            help="Inject a fault, such as kill:worker1@step=200, restart:worker1@20s+3s, "
            "stop:worker2@10s+5s, slow:worker2x4@10s+20s, cut:node1@15s+5s, late:worker2@30s or "
            "random:mtbf=20s; may be given several times.",
        ),
    ] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(
            metavar="abort|go-on|replace|restart",
            help="What the loss of a worker or a server means: the run ends; goes on without the "
            "worker (without a server it ends); starts it again; or starts everything again from "
            "the newest checkpoint (default: go-on with --fault where the strategy can, else "
            "abort).",
        ),
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
    context: typer.Context = None,  # type: ignore[assignment]  # typer gives it
) -> Asked:
    """Say what options ask for; other commands take the same."""
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
        "fault": fault or None,
        "on_failure": on_failure,
        "eval_every": eval_every,
        "eval_samples": eval_samples,
        "checkpoint_every": checkpoint_every,
        "strategy.name": strategy,
        "cluster.name": cluster,
        "cluster.nodes": nodes,
        "cluster.hosts": None if hosts is None else split(hosts),
        "cluster.link": link,
        "cluster.latency_s": latency,
        "optimizer.lr": lr,
        "workload.data_dir": str(data_dir) if data_dir else None,
        "record.profile": profile or None,
        "workload.args": passed_on(context) or None,
    }
    given = {field: value for field, value in flags.items() if value is not None}
    settings = [*(set_ or []), *(more_settings or [])]
    return asked(workload, given, settings)


def _run(
    wanted: Asked,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    json_: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object, on the last line.")
    ] = False,
    print_: Annotated[
        bool,
        typer.Option(
            "--print",
            help="With --cluster torchrun and --nodes, or --cluster manual: print the command to "
            "type on each machine, and start nothing.",
        ),
    ] = False,
) -> None:
    if print_:
        _print_commands(wanted.table())
    else:
        _carry_out(wanted.table(), out, json_)


run = with_options(spec_options, _run)


def _carry_out(table: dict[str, Any], out: Path, as_json: bool) -> None:
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with assembled(table) as drives:
        if drives:
            _drive(table, out, as_json)


@contextlib.contextmanager
def assembled(table: dict[str, Any]) -> Iterator[bool]:
    """Have the nodes of a cluster there; yields whether this process drives what is asked for.

    One that only serves needs nothing else of the table: a user's files come from the driver.
    """
    from paceline.parts import cluster_of

    cluster = None
    with contextlib.suppress(SpecError):  # said when all fields are read, with the others' problems
        cluster = cluster_of(table)
    with contextlib.nullcontext(True) if cluster is None else cluster.assembled() as drives:
        yield drives


def _drive(table: dict[str, Any], out: Path, as_json: bool) -> None:
    from paceline.spec import RunSpec

    carry_out(RunSpec.from_table(table), out, as_json)


def carry_out(spec: RunSpec, out: Path, as_json: bool, origin: Origin | None = None) -> None:
    """Carry out a run, show how it goes, and print what came of it."""
    from paceline.cli.summary import print_how_to_go_on, print_result
    from paceline.display.live import watching
    from paceline.engine import driver

    try:
        with watching(spec) as watch:
            result = driver.run(spec, out=out, watch=watch, origin=origin)
    except RunError as error:
        if error.result is not None:
            print_result(error.result)
            print_how_to_go_on(error.result)
            if as_json:
                _print_json(error.result)
        raise
    print_result(result)
    if as_json:
        _print_json(result)


def _print_commands(table: dict[str, Any]) -> None:
    from paceline.spec import RunSpec

    cluster = RunSpec.from_table(table).cluster
    commands = cluster.commands([each for each in sys.argv[1:] if each != "--print"])
    if commands is None:
        reason = "this cluster is started by one command: nothing is to be typed elsewhere"
        raise SpecError([Problem("--print", cluster.name, reason, ("torchrun", "manual"))])
    print(commands)  # noqa: T201


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


def asked(workload: str, given: Fields, settings: list[str]) -> Asked:
    """Say what is asked for: a workload or a spec file, and flags and --set over it."""
    from paceline.api.asking import base_of

    return Asked(base_of(workload), {**given, **fields_of(settings)})


def fields_of(settings: list[str]) -> dict[str, Any]:
    """Read every FIELD=VALUE of --set."""
    wrong = [each for each in settings if not all(each.partition("=")[:2])]
    if wrong:
        reason = "not of the form FIELD=VALUE"
        raise SpecError([Problem("--set", each, reason) for each in wrong])
    split = (each.partition("=") for each in settings)
    return {field.strip(): value_of(text) for field, _, text in split}


def split(text: str) -> list[str]:
    """Read A,B,... as a list."""
    return [each.strip() for each in text.split(",") if each.strip()]


def value_of(text: str) -> object:
    """Read a value as TOML has it; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
