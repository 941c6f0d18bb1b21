"""`paceline.load`, `paceline.runs` and `paceline.explain`: runs that are kept, as values."""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from paceline.errors import PacelineError
from paceline.outcome.results import Result
from paceline.store.runs import DEFAULT_OUT, all_runs, find_run
from paceline.store.stored import StoredRun, making_sense
from paceline.verdict.explanation import Explanation

if TYPE_CHECKING:
    import polars

    from paceline.exhibits.values import Figure, Page


@final
class Run:
    """A run that is kept: its result, its spec, and its rows as Polars frames.

    Nothing that the run names is imported, and its files are read when they are asked for.
    """

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored

    @property
    def stored(self) -> StoredRun:
        """The run as its files have it."""
        return self._stored

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self._stored.name

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._stored.folder.path

    @property
    def result(self) -> Result:
        """What came of it: every figure, with the verdict."""
        return self._stored.result

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked for, as plain tables; `RunSpec.from_table` makes a spec of them."""
        return self._stored.spec

    @property
    def environment(self) -> dict[str, Any]:
        """The machine it ran on, and the versions of what it used."""
        return self._stored.environment

    def rows(self) -> polars.DataFrame:
        """Give the rows of every worker, about ten per second: time, steps, loss, spans."""
        return self._stored.steps

    def nodes(self) -> polars.DataFrame:
        """Give the samples of every node: CPU, memory, disk, network."""
        return self._stored.nodes

    def evaluations(self) -> polars.DataFrame:
        """Give the metrics on test rows, over time."""
        return self._stored.evaluations

    def losses(self) -> polars.DataFrame:
        """Give every mini-batch's loss; empty unless the run had `record.loss = "all"`."""
        return self._stored.losses

    def curves(self) -> dict[str, polars.DataFrame]:
        """Give the lines over time that reports draw: few points, however long the run was.

        `loss`, `rate`, `usage` of nodes, `exchanged`, and each metric of an evaluation by its name.
        """
        from paceline.store import curves

        measured = [each for each in self.evaluations().columns if each not in _NO_METRIC]
        return {
            **{name: curves.metric(self._stored, name) for name in measured if name != "loss"},
            "test_loss": curves.metric(self._stored, "loss"),
            "loss": curves.loss(self._stored),
            "rate": curves.rate(self._stored),
            "exchanged": curves.exchanged(self._stored),
            "usage": curves.usage(self._stored),
        }

    def figures(self) -> dict[str, Figure]:
        """Give the figures of a report on this run, by their names; a notebook draws each."""
        return self._page.charts

    def tables(self) -> dict[str, polars.DataFrame]:
        """Give the tables of a report on this run, by their names."""
        return self._page.frames

    @cached_property
    def _page(self) -> Page:
        from paceline.reporting import page_of

        with making_sense(self.path):
            return page_of([self._stored])

    def operators(self) -> list[dict[str, Any]]:
        """Give what a profile saw of worker 0, by operator; empty where there was none."""
        return self._stored.folder.read_operators("worker0")

    def explain(self) -> Explanation:
        """Say what limited it, and what to try next."""
        with making_sense(self.path):
            return Explanation.of(self.result)

    def __repr__(self) -> str:
        return f"<Run {self.name}: {', '.join(_in_brief(self.result))}>"

    def _repr_html_(self) -> str:
        told = "".join(f"<li>{escape(each)}</li>" for each in _in_brief(self.result))
        return f"<b>{escape(self.name)}</b><ul>{told}</ul>"


_NO_METRIC = ("time_s", "progress")


def _in_brief(result: Result) -> list[str]:
    """Say what somebody looks for first."""
    from paceline.training.metrics import in_order, written

    per_s = result.worker_steps_per_s if result.global_steps is None else result.steps_per_s
    told = [result.status, f"{result.num_workers} x batch {result.batch_size}"]
    told += [] if per_s is None else [f"{per_s:,.4g} steps/s"]
    metrics = result.test_metrics
    told += [f"test {name} {written(name, metrics[name])}" for name in in_order(metrics)[:3]]
    return told if result.compute == "real" else [*told, result.full_label]


def load(run: str | Path | Result = "last", *, out: Path | str = DEFAULT_OUT) -> Run:
    """Read a run that is kept.

    `run` is its folder, part of its name, `last`, or its result; names are looked for below `out`.
    Raises `StoreError` where there is none, or it still runs. A run whose driver was killed is
    sealed first.
    """
    wanted = run.run if isinstance(run, Result) else str(run)
    return Run(StoredRun.read(find_run(wanted, Path(out))))


def runs(out: Path | str = DEFAULT_OUT) -> list[Run]:
    """Give all runs below `out` that are over, oldest first.

    Those that cannot be read are left out; runs whose driver was killed are sealed first.
    """
    found = []
    for folder in all_runs(Path(out)):
        try:
            found.append(Run(StoredRun.read(folder)))
        except PacelineError:  # `paceline ls` says why
            continue
    return found


def explain(
    run: str | Path | Result | Run = "last", *, out: Path | str = DEFAULT_OUT
) -> Explanation:
    """Say what limited a run: each worker's step in parts, utilisation, what to try next.

    `run` and `out` are what `load` takes; what it gives will do too.
    """
    return (run if isinstance(run, Run) else load(run, out=out)).explain()
