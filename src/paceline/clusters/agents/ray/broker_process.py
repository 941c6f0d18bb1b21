"""The process that speaks with Ray: it has threads, signal handlers and ways to exit of its own.

Reads what is asked for as a line of JSON, and says what comes of it, in lines of JSON. It knows no
secret of ours: invitations are sealed for the actors. When its standard input ends, it gives
everything back.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

from paceline.clusters.agents.ray import offers
from paceline.clusters.agents.ray.actor import NodeActor
from paceline.system import linux
from paceline.system.waiting import Deadline, time_left

_TICK_S: Final = 0.5
# How long actors have to start on nodes that were found: Ray starts a process on each.
_STARTING_S: Final = 45.0
_LEAVING_S: Final = 5.0


def main() -> None:
    linux.die_with_parent()
    linux.name_process("pace-ray")
    out = _private_output()
    requests = _Requests()
    asked = json.loads(requests.first())
    try:
        _connect(asked["address"])
        _say(out, {"connected": True})
        if asked["nodes"] is None:
            _say(out, {"offers": offers.listed(asked["patience_s"])})
        else:
            _serve(asked, requests, out)
    except Exception as error:  # noqa: BLE001 - Ray has errors of its own
        _say(out, {"error": _told(error)})


def _private_output() -> IO[str]:
    """Keep standard output for what we say: Ray writes to it too."""
    kept = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return kept


def _say(out: IO[str], what: Mapping[str, Any]) -> None:
    print(json.dumps(what), file=out, flush=True)


def _connect(address: str) -> None:
    import ray

    ray.init(
        address=address, log_to_driver=False, configure_logging=False, logging_level="CRITICAL"
    )


def _told(error: Exception) -> str:
    """Give the first lines of an error of Ray: what follows is where in Ray it was raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3]) or type(error).__name__
    if "any running Ray instance" in text:  # it names options that are not ours
        return "none is running on this machine: start one, or name another's, HOST:6379"
    if "Failed to connect" in text:
        return f"{text}: is it running, and is RAY_AUTH_TOKEN here what it is there?"
    return text


def _serve(asked: dict[str, Any], requests: _Requests, out: IO[str]) -> None:
    deadline = Deadline(asked["patience_s"])
    others = asked["others"]
    bundles = offers.bundles(asked["nodes"], asked["cpus"], asked["resources"], others)
    group = _placed(bundles, others, deadline, out)
    actors = [_actor(group, index, bundle) for index, bundle in enumerate(bundles)]
    try:
        _say(out, {"placed": _introduced(group, actors, bundles)})
        _pass_on(actors, requests, out)
    finally:
        _give_back(group, actors)


def _placed(
    bundles: Sequence[Mapping[str, float]], others: Sequence[str], deadline: Deadline, out: IO[str]
) -> Any:
    """Have Ray find a node for each bundle, all different, and none of `others`.

    Raises `ValueError` of what is free.
    """
    from ray.util.placement_group import placement_group

    allowed = {"ray.io/node-id": f"!in({','.join(others)})"} if others else {}
    group = placement_group(
        [dict(each) for each in bundles],
        strategy="STRICT_SPREAD",
        bundle_label_selector=[allowed for _ in bundles] if allowed else None,
    )
    hosts = offers.alive()
    while not group.wait(min(_TICK_S, deadline.left_s)):
        lost = [each.name for each in hosts if each.is_lost()]
        told = f"; not reached: {', '.join(lost)}" if lost else ""
        asked = f"asked for {offers.told(bundles)}; {offers.free()}{told}"
        if not deadline.left_s:
            raise ValueError(f"cannot place the nodes: {asked}")
        _say(out, {"waiting": asked})
    return group


def _actor(group: Any, index: int, bundle: Mapping[str, float]) -> Any:
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    others = {name: number for name, number in bundle.items() if name not in {"CPU", "GPU"}}
    chosen = ray.remote(NodeActor).options(
        num_cpus=bundle.get("CPU", 0),
        num_gpus=bundle.get("GPU", 0),
        resources=others,
        max_restarts=0,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
    )
    return chosen.remote(index)


def _introduced(
    group: Any, actors: Sequence[Any], bundles: Sequence[Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Wait until all actors have said where they are; raises `ValueError` that names the host."""
    import ray

    hosts = offers.chosen(group, len(actors))
    asked = {each.introduce.remote(): index for index, each in enumerate(actors)}
    told: dict[int, dict[str, Any]] = {}
    for _ in time_left(_STARTING_S):
        missing = [each for each, index in asked.items() if index not in told]
        if not missing:
            break
        for each in ray.wait(missing, timeout=_TICK_S)[0]:
            index = asked[each]
            told[index] = _answer(each, hosts[index].name)
        late = [hosts[index] for index in asked.values() if index not in told]
        for host in [each for each in late if each.is_lost()]:
            raise ValueError(f"({host.name}): it is gone, or was cut off")
    else:
        reason = f"its actor has not started within {_STARTING_S:g} s"
        raise ValueError(f"({late[0].name}): {reason}")
    return [
        {**told[index], "index": index, "cpus": bundle.get("CPU", 0)}
        for index, bundle in enumerate(bundles)
    ]


def _answer(reference: Any, host: str) -> dict[str, Any]:
    import ray

    try:
        answer: dict[str, Any] = ray.get(reference)
    except ray.exceptions.RayError as error:
        reason = offers.why_no_answer(error)
        raise ValueError(f"({host}): its actor could not be started: {reason}") from error
    return answer


class _Requests:
    """Lines of standard input, none of which waits in a buffer while it is looked for more."""

    def __init__(self) -> None:
        self._rest = b""

    def first(self) -> bytes:
        """Wait for a line; empty at the end."""
        while (lines := self.read()) is not None:
            if lines:
                return lines[0]
        return b""

    def read(self) -> list[bytes] | None:
        """Read what has come; None at the end."""
        data = os.read(0, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines if data else None


def _pass_on(actors: Sequence[Any], requests: _Requests, out: IO[str]) -> None:
    """Hand actors what the driver sends them, and tell of those that are lost, until it ends."""
    lost: dict[int, str] = {}
    while True:
        if select.select([0], [], [], _TICK_S)[0]:
            lines = requests.read()
            if lines is None:
                return
            for word in map(json.loads, lines):
                actors[word["index"]].serve.remote(word["sealed"])
        for index, why in _failures(actors, lost).items():
            lost[index] = why
            _say(out, {"lost": {"index": index, "reason": why}})


def _failures(actors: Sequence[Any], known: Mapping[int, str]) -> dict[int, str]:
    import ray

    asked = {each.failure.remote(): i for i, each in enumerate(actors) if i not in known}
    ready, _ = ray.wait([*asked], num_returns=max(1, len(asked)), timeout=_TICK_S)
    found = {}
    for each in ready:
        try:
            why = ray.get(each)
        except ray.exceptions.RayError as error:
            why = f"Ray has lost its actor: {_told(error)}"
        if why is not None:
            found[asked[each]] = why
    return found


def _give_back(group: Any, actors: Sequence[Any]) -> None:
    import ray
    from ray.util.placement_group import remove_placement_group

    with contextlib.suppress(Exception):  # a node that is lost has nothing to give back
        ray.wait(
            [each.end.remote() for each in actors],
            num_returns=len(actors),
            timeout=_LEAVING_S,
        )
    for each in actors:
        ray.kill(each)
    remove_placement_group(group)
    ray.shutdown()


if __name__ == "__main__":
    main()
