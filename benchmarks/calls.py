"""What a change costs where nothing can be timed: calls of functions per step, before and after.

    python benchmarks/calls.py --before ../before/.venv/bin/python
    python benchmarks/calls.py --before … --only 'logistic, ps-async with 3 workers'

Every seat counts the calls of Paceline's own functions in its main thread, with cProfile. Each
checkout carries out a run of a few steps and one of many; the difference is what so many steps
called. How busy the machine is changes the times, not these numbers. Functions that are called less
than once per step are left out: how often rows are written, or a wait looks again, follows from the
time. A call of a Python function takes about 0.05 µs; what torch does is not counted.

Functions are told apart by the name of their file and their own, so that a file may have moved.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from before_after import CASES

FEW, MANY = 100, 600
LEAST = 0.9
"""How often per step a function is called that belongs to the step."""
SMALLEST = 0.4
"""By how many calls per step two sides must differ for a function to be named."""

# Found by every Python below, the zygote and its seats too: counts from the last fork to the end.
HOOK = """
import cProfile, json, os
from collections import Counter

folder, counting, leave = os.environ["CALLS_FOLDER"], [], os._exit

def begin():
    while counting:
        counting.pop().disable()
    counting.append(cProfile.Profile())
    counting[0].enable()

def end(code):
    if counting:
        counting[0].disable()
        calls = Counter()
        for entry in counting[0].getstats():
            if not isinstance(entry.code, str):
                calls[f"{entry.code.co_filename}:{entry.code.co_name}"] += entry.callcount
        name = open("/proc/self/comm").read().strip()
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(calls, file)
    leave(code)

os.register_at_fork(after_in_child=begin)
os._exit = end
"""
COUNTED = """
import json, sys, paceline
paceline.run(paceline.RunSpec.from_table(json.loads(sys.argv[1])), out=sys.argv[2])
"""


def calls_in(python: str, case: Mapping[str, Any], num_steps: int) -> dict[str, Counter[str]]:
    """Carry out a run of a checkout; gives the calls of its own functions, by role."""
    with tempfile.TemporaryDirectory() as made:
        hook, counts, runs = (Path(made) / name for name in ("hook", "counts", "runs"))
        hook.mkdir()
        counts.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        spec = json.dumps({**case, "worker_steps": num_steps, "record": {"tensorboard": False}})
        environment = {**os.environ, "PYTHONPATH": str(hook), "CALLS_FOLDER": str(counts)}
        command = [python, "-c", COUNTED, spec, str(runs)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        found: dict[str, Counter[str]] = {}
        for file in counts.glob("pace-*.json"):
            role = re.match(r"pace-([a-z]+)", file.name)
            assert role is not None
            found.setdefault(role[1], Counter()).update(own(json.loads(file.read_text())))
        return found


def own(calls: Mapping[str, int]) -> Counter[str]:
    """Keep Paceline's functions, each named by its file and its own name, wherever that lies."""
    kept: Counter[str] = Counter()
    for name, count in calls.items():
        path, _, function = name.rpartition(":")
        if "/paceline/" in path and "/site-packages/" not in path:
            kept[f"{Path(path).stem}.{function}"] += count
    return kept


def per_step(few: Counter[str], many: Counter[str], num_steps: int) -> dict[str, float]:
    """Give how often a step calls each function, but for those that it does not always call."""
    each = {name: (many[name] - few[name]) / num_steps for name in many}
    return {name: count for name, count in each.items() if count >= LEAST}


def told(title: str, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
    """Say how many calls a step makes on both sides, and which functions differ."""
    first, second = sum(before.values()), sum(after.values())
    yield f"{title}: {first:.1f} calls per step before, {second:.1f} after"
    by_change = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {*before, *after}}
    for name, change in sorted(by_change.items(), key=lambda each: (-each[1], each[0])):
        if abs(change) >= SMALLEST:
            yield f"  {change:+.1f} {name}"


def count(python: str, case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Give what a step calls in a worker and, where there is one, in the server."""
    few, many = (calls_in(python, case, num_steps) for num_steps in (FEW, MANY))
    steps = (MANY - FEW) * case.get("num_workers", 1)
    roles = [role for role in ("worker", "server") if role in many]
    return {role: per_step(few[role], many[role], steps) for role in roles}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", required=True, help="python of the checkout to compare with")
    parser.add_argument("--after", default=sys.executable, help="python of this one")
    parser.add_argument("--only", action="append", choices=CASES, help="a case, by its name")
    arguments = parser.parse_args()
    for name in arguments.only or CASES:
        before, after = (count(each, CASES[name]) for each in (arguments.before, arguments.after))
        for role in after:
            print(*told(f"{name}, a {role}", before[role], after[role]), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
