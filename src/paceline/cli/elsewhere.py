"""Options of commands that are no run, and can do their work on other machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from paceline.cli.run import fields_of, split
from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from paceline.clusters.base import Cluster

_PANEL: Final = "Other machines"
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Do it on each node of a cluster of real machines: ssh, torchrun, ray, manual; "
        "default: here.",
        rich_help_panel=_PANEL,
    ),
]
HostsOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="With --cluster ssh: the machines, as ssh takes them.",
        rich_help_panel=_PANEL,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Set a field of the cluster, such as cluster.python.",
        rich_help_panel=_PANEL,
    ),
]


def fields_elsewhere(cluster: str | None, hosts: str | None) -> dict[str, Any]:
    """Give the fields that the options stand for."""
    given = {"cluster.name": cluster, "cluster.hosts": None if hosts is None else split(hosts)}
    return {field: value for field, value in given.items() if value is not None}


def cluster_table(
    cluster: str | None, hosts: str | None, settings: list[str] | None
) -> dict[str, Any]:
    """Give the table that says where to do something; empty: here."""
    from paceline.settings import merged, nested

    fields = merged(fields_elsewhere(cluster, hosts), fields_of(settings or []))
    if wrong := [each for each in fields if not each.startswith("cluster")]:
        reason = "only fields of the cluster are set here"
        raise SpecError([Problem("--set", each, reason) for each in wrong])
    return nested(fields)


def cluster_elsewhere(table: dict[str, Any]) -> Cluster:
    """Make the cluster, and check that it has nodes that are other machines."""
    from paceline.engine.on_nodes import workers_on
    from paceline.parts import cluster_of

    cluster = cluster_of(table)
    if not cluster.is_elsewhere:
        reason = "it has no other machines: leave it out to do this here"
        raise SpecError([Problem("cluster.name", cluster.name, reason, _elsewhere())])
    if problems := [*cluster.problems()]:
        raise SpecError(problems)
    workers_on(cluster)
    cluster.verify()
    return cluster


def _elsewhere() -> tuple[str, ...]:
    """Name the clusters that have other machines."""
    from paceline.clusters import CLUSTERS

    made = {name: cast("type[Cluster]", CLUSTERS.find(name)[0]) for name in CLUSTERS.entries}
    return tuple(name for name, each in made.items() if each.is_elsewhere)
