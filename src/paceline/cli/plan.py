"""`paceline plan`: which strategy on how many machines, before they are rented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.lazy import passed_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.api.planned import Planned
    from paceline.cli.layout import TextGrid
    from paceline.planning.plan import Plan

_WHAT = "What is trained"
_WHERE = "Machines"
_SHOW = "What is shown"

HELP = """Predict every strategy on every number of machines, and recommend one.

The step is calibrated on this machine, or taken from a device's rates or a stored run; the rest \
is arithmetic: no machine is needed but this one, and nothing is trained.

Examples:

  paceline plan lenet-mnist --machines 1,2,4,8 --link 1gbit

  paceline plan resnet50-cifar10 --device replay:k80 --machines 1,4,16 --link 10gbit --latency 0.1ms

  paceline plan --from last --machines 16 --price 0.9 --samples 5000000

  paceline plan train.py --machines 1,4 --link 1gbit -- --batch 64

  paceline plan published.toml
"""


def plan(  # noqa: PLR0917 - each is an option on the command line
    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKLOAD|train.py|FILE.toml]",
            help="One that `paceline workloads` lists, a class of your own "
            "(my_model.py:MyWorkload), a training script (train.py), whose own arguments come "
            "after --, or a TOML file with the fields of a plan.",
            show_default=False,
        ),
    ] = None,
    machines: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Numbers of machines (default: 1,2,4,8,16).",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Bandwidth of each machine, in each direction (default: 1gbit).",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="From one machine to another, one way, such as 0.2ms.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    uplink: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="What all machines of a rack share to other racks.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    rack: Annotated[
        int | None, typer.Option(help="Machines per rack.", rich_help_panel=_WHERE)
    ] = None,
    workers_per_node: Annotated[
        int | None,
        typer.Option(help="Workers on each machine (default: 1).", rich_help_panel=_WHERE),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            help="Per machine and hour: adds a cost, of a million rows or of --samples.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Strategies to compare (default: ring,ddp,ps-sync,ps-async).",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Numbers of servers (default: 1, and one beside every worker).",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cpu|replay:k80|FILE",
            help="What computes: this CPU (the default), or the rates of another device.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Rows per worker per step.", rich_help_panel=_WHAT)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Rows to train on: adds time and cost.", rich_help_panel=_WHAT),
    ] = None,
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Take step times, their spread and links from a stored run; given twice, steps "
            "from the run with fewer workers and the rest from the other.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC>=X",
            help="With --from: train until the run's learning curve reached this.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Set a field of the plan or workload."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder of all runs.")] = Path("runs"),
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a page with figures there.", rich_help_panel=_SHOW),
    ] = None,
    all_: Annotated[
        bool,
        typer.Option("--all", help="Every number of servers and placement.", rich_help_panel=_SHOW),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run the recommended candidate, the runner-up and one more emulated here, and "
            "compare.",
            rich_help_panel=_SHOW,
        ),
    ] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_SHOW)
    ] = False,
    context: typer.Context = None,  # type: ignore[assignment]  # typer gives it
) -> None:
    """Predict every strategy on every number of machines, and recommend one."""
    from paceline.api.planned import plan as make

    options: dict[str, Any] = {
        "machines": machines,
        "link": link,
        "latency": latency,
        "uplink": uplink,
        "rack": rack,
        "workers_per_node": workers_per_node,
        "price": price,
        "strategies": strategies,
        "servers": servers,
        "device": device,
        "batch": batch,
        "samples": samples,
        "workload.args": passed_on(context) or None,
    }
    made = make(
        workload,
        from_run=from_ or None,
        target=target,
        out=out,
        verify=verify,
        to=to,
        tell=_teller(),
        **_given(options, set_ or []),
    )
    if json_:
        print(json.dumps(made.table()))  # noqa: T201
        return
    _print(made, show_all=all_)


def _given(options: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Give the options that were given, and every FIELD=VALUE of --set, as one table."""
    from paceline.cli.run import fields_of
    from paceline.settings import merged, nested

    chosen = {key: value for key, value in options.items() if value is not None}
    return nested(merged(chosen, fields_of(settings)))


def _teller() -> Callable[[str], None]:
    """Say on standard error what is being measured, where somebody looks."""
    from paceline.display.consoles import wide_console

    console = wide_console(stderr=True)

    def tell(text: str) -> None:
        if console.is_terminal:
            console.print(text, style="bright_black", markup=False)

    return tell


def _print(made: Planned, *, show_all: bool) -> None:
    from paceline.display.consoles import wide_console

    console = wide_console()
    basis, scenario = made.plan.basis, made.plan.scenario
    console.print(f"{basis.title}; batch {basis.batch}", style="bold", markup=False)
    console.print(_conditions(made.plan), markup=False)
    for note in basis.notes:
        console.print(f"note: {note}", markup=False)
    console.print()
    console.print(_rows(made.plan, show_all=show_all))
    if scenario.samples or basis.samples or scenario.price:
        console.print()
        console.print(_costs(made.plan))
    for each in made.verified:
        console.print(f"\n{each.sentence}", markup=False)
    console.print()
    for sentence in made.sentences:
        console.print(sentence, markup=False)
    checked = made.checked
    for said in (checked.sentence, checked.scope, checked.beyond(max(scenario.machines))):
        if said:
            console.print(said, style="bright_black", markup=False)
    if made.path is not None:
        console.print(f"\npage: {made.path}", markup=False)


def _conditions(plan: Plan) -> str:
    """Say on what machines, in a line."""
    scenario, step = plan.scenario, plan.basis.step
    said = [
        f"{1e3 * step.compute_s:,.4g} ms computing",
        f"{step.with_whole_table().num_bytes / 1e6:,.4g} MB of parameters",
        *([f"of which a step moves {step.rows.num_rows:,.0f} rows"] if step.rows else []),
        f"links of {scenario.link / 1e9:g} Gbit/s",
    ]
    if scenario.latency:
        said.append(f"{1e3 * scenario.latency:g} ms latency")
    if scenario.rack:
        said.append(f"racks of {scenario.rack} on {(scenario.uplink or 0) / 1e9:g} Gbit/s")
    if scenario.workers_per_node > 1:
        said.append(f"{scenario.workers_per_node} workers per machine")
    return ", ".join(said)


def _rows(plan: Plan, *, show_all: bool) -> TextGrid:
    from paceline.cli.tables import listing, number, words
    from paceline.planning.advice import per_s_text
    from paceline.planning.plan import best_rows

    table = listing(
        number("machines"),
        words("strategy"),
        number("rows/s"),
        number("speed-up"),
        number("eff. %"),
        words("limit"),
        number("%"),
        number("MB/step", rank=1),
        number("GB", rank=1),
    )
    chosen = plan.rows if show_all else best_rows(plan)
    for row in chosen:
        table.add_row(
            f"{row.machines}",
            row.label,
            per_s_text(row.samples_per_s),
            f"{row.speed_up:.2f}",
            f"{100 * row.efficiency:.0f}",
            row.limit,
            f"{100 * row.limit_share:.0f}",
            _figures(row.node_bytes_per_step / 1e6),
            _figures(row.memory_bytes / 1e9),
        )
    return table


def _figures(value: float) -> str:
    """Write a number with three digits, or all those before its point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _costs(plan: Plan) -> TextGrid:
    """Show time and cost to the wanted rows; where there are none, the cost of a million."""
    from paceline.cli.tables import plain_table
    from paceline.planning.plan import best_rows

    samples = plan.scenario.samples or plan.basis.samples
    wanted = f"{samples:,}" if samples else "1,000,000"
    table = plain_table("machines>", f"strategy, to {wanted} rows", "hours>", "cost>")
    for row in best_rows(plan):
        seconds = row.seconds or 1e6 / row.samples_per_s
        cost = row.cost if samples else row.cost_per_million
        said = "-" if cost is None else f"{cost:,.2f}" if cost >= 1 else f"{cost:,.2g}"
        table.add_row(f"{row.machines}", row.label, f"{seconds / 3600:,.3g}", said)
    return table
