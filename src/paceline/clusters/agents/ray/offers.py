"""What a Ray cluster has: its nodes, what is free on each, and what to ask them for.

Called in the process that is connected to Ray.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from paceline.clusters.agents.versions import own_versions

_SHOWN: Final = ("CPU", "GPU")
_ANSWER_S: Final = 30.0
_CALLING_S: Final = 2.0
_MOST_MISSED: Final = 2
_MOST_NAMED: Final = 4


def bundles(
    num_nodes: int, cpus: float | None, resources: Mapping[str, float], others: Sequence[str]
) -> list[dict[str, float]]:
    """Say what to ask each node for; without a number of CPUs, for all that it has.

    So nobody else computes on the nodes of a run whose speed is measured. `others` are nodes that
    are not to be used. Raises `ValueError`.
    """
    if cpus is not None:
        return [{"CPU": cpus, **resources} for _ in range(num_nodes)]
    fitting = [each for each in _alive() if _has(each, resources) and each["NodeID"] not in others]
    totals = sorted((each["Resources"]["CPU"] for each in fitting), reverse=True)[:num_nodes]
    if len(totals) < num_nodes:
        wanted = ", ".join(f"{name} {number:g}" for name, number in resources.items())
        needed = f" and {wanted}" if wanted else ""
        more = " more" if others else ""
        raise ValueError(
            f"{num_nodes}{more} nodes were asked for, and it has {len(totals)}{more} with CPUs"
            f"{needed}{_gone()}; if it can add some, set cluster.cpus, and it is waited for them"
        )
    return [{"CPU": total, **resources} for total in totals]


def _alive() -> list[dict[str, Any]]:
    import ray

    return [each for each in ray.nodes() if each["Alive"]]


def _gone() -> str:
    """Name hosts that were nodes and are none any more, so far as Ray remembers them."""
    import ray

    names = {is_alive: set[str]() for is_alive in (True, False)}
    for each in ray.nodes():
        names[each["Alive"]].add(str(each["NodeManagerHostname"]))
    gone = sorted(names[False] - names[True] - {""})
    return f"; gone: {', '.join(gone[:_MOST_NAMED])}" if gone else ""


def _has(node: Mapping[str, Any], resources: Mapping[str, float]) -> bool:
    own = node["Resources"]
    return own.get("CPU", 0) > 0 and all(own.get(n, 0) >= number for n, number in resources.items())


def told(asked: Sequence[Mapping[str, float]]) -> str:
    """Say what bundles ask for: `2 different nodes, with CPU 4 and GPU 1; CPU 2 and GPU 1`."""
    texts = [" and ".join(f"{name} {number:g}" for name, number in each.items()) for each in asked]
    each = (
        texts[0] + (" each" if len(texts) > 1 else "") if len({*texts}) == 1 else "; ".join(texts)
    )
    nodes = "1 node" if len(texts) == 1 else f"{len(texts)} different nodes"
    return f"{nodes} with {each}"


def free() -> str:
    """Say what is free on each node: `free are CPU 1 of 2 on a`."""
    texts = [
        ", ".join(f"{name} {now:g} of {total:g}" for name, (now, total) in each["shown"].items())
        + f" on {each['host']}"
        for each in _with_free()
    ]
    return f"free are {'; '.join(texts)}" if texts else "no node has CPUs"


@final
class OfferedNode:
    """A node as Ray knows it, and whether it answers: Ray itself takes a minute to notice."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.name = str(node["NodeManagerHostname"])
        self._where = (str(node["NodeManagerAddress"]), int(node["NodeManagerPort"]))
        self._num_missed = 0

    def is_lost(self) -> bool:
        """Call its daemon; whether that has failed several times in a row."""
        import ray

        if ray.util.client.ray.is_connected():  # the daemons need not be reached from here
            return False
        try:
            socket.create_connection(self._where, _CALLING_S).close()
            self._num_missed = 0
        except OSError:
            self._num_missed += 1
        return self._num_missed >= _MOST_MISSED


def chosen(group: Any, number: int) -> list[OfferedNode]:
    """Give the nodes that Ray has chosen for a placement group's bundles, in order."""
    import ray
    from ray.util.placement_group import placement_group_table

    ids = placement_group_table(group)["bundles_to_node_id"]
    nodes = {each["NodeID"]: OfferedNode(each) for each in ray.nodes()}
    return [nodes[ids[index]] for index in range(number)]


def alive() -> list[OfferedNode]:
    """Give all nodes that Ray takes to be there."""
    return [OfferedNode(each) for each in _alive()]


def _with_free() -> list[dict[str, Any]]:
    available = _available()
    return [
        {
            "id": each["NodeID"],
            "host": each["NodeManagerHostname"],
            "address": each["NodeManagerAddress"],
            "shown": {
                name: (available.get(each["NodeID"], {}).get(name, 0.0), total)
                for name, total in sorted(each["Resources"].items())
                if name in _SHOWN or not _is_internal(name)
            },
        }
        for each in sorted(_alive(), key=lambda each: str(each["NodeManagerHostname"]))
    ]


def _available() -> dict[str, dict[str, float]]:
    """Give what is free, by node; through Ray Client only a task on the cluster can say so."""
    import ray
    from ray._private.state import available_resources_per_node

    if not ray.util.client.ray.is_connected():
        found: dict[str, dict[str, float]] = available_resources_per_node()
        return found
    task = ray.remote(available_resources_per_node).options(num_cpus=0)
    asked: dict[str, dict[str, float]] = ray.get(task.remote(), timeout=_ANSWER_S)
    return asked


def _is_internal(name: str) -> bool:
    internal = ("memory", "object_store_memory")
    return name in internal or name.startswith(("node:", "bundle_group", "accelerator_type:"))


def listed(patience_s: float) -> list[dict[str, Any]]:
    """Give what each node has, and which versions run there, or why that cannot be said."""
    nodes = _with_free()
    found = _versions([each["id"] for each in nodes], patience_s)
    return [{**each, **found[each["id"]]} for each in nodes]


def _versions(ids: Sequence[str], patience_s: float) -> dict[str, dict[str, Any]]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(own_versions)
    asked = {
        node: task.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()
        for node in ids
    }
    ray.wait([*asked.values()], num_returns=len(asked), timeout=patience_s)
    return {node: _answer(each) for node, each in asked.items()}


def _answer(reference: Any) -> dict[str, Any]:
    import ray

    try:
        return {"versions": ray.get(reference, timeout=0)}
    except Exception as error:  # noqa: BLE001 - Ray raises there what was raised on the node
        return {"versions": {}, "problem": why_no_answer(error)}


def why_no_answer(error: Exception) -> str:
    """Say what an error that Ray brings back from a node means."""
    text = str(error)
    if "No module named 'paceline'" in text:
        return "Paceline is not installed for Ray's Python there"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
