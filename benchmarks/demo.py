"""How often the comparison of `make demo` ends in a ranking, and how often in the same one.

    python benchmarks/demo.py [--tries 10] [--taken-cores 0]

`--taken-cores 1` has another program keep a core busy all the time: the comparison may then rank
less, but no conclusion may name a speed-up above the number of workers. Options after `--` are
compared instead of the demo's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
HOG: Final = "while True: pass"
_GAIN: Final = re.compile(r"([0-9.]+) times")
WANTED_SHARE: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Try:
    """What one comparison concluded."""

    order: tuple[str, ...]
    """Ranked sides, the best first; ties joined. Empty: nothing could be ranked."""
    reasons: tuple[str, ...]
    largest_gain: float
    """The largest speed-up that a sentence names, over its number of workers."""
    largest_measured: float
    """The largest median of a ranked side, over its number of workers: no sentence rounds it."""
    conclusion: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--taken-cores", type=int, default=0)
    parser.add_argument("options", nargs="*", help="of paceline compare, after --")
    given = parser.parse_args()
    options = given.options or demo_options()
    print(f"paceline compare {' '.join(options)}; {given.taken_cores} cores taken", flush=True)
    tries = []
    with taken(given.taken_cores):
        for number in range(given.tries):
            tries.append(attempt(options))
            print(f"{number + 1}: {tries[-1].conclusion}", flush=True)
    sys.exit(say(tries, is_quiet=not given.taken_cores))


def demo_options() -> list[str]:
    """Ask the Makefile, so that the demo and this benchmark stay the same."""
    done = subprocess.run(
        ["make", "--silent", "--no-print-directory", "demo-options"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


@contextlib.contextmanager
def taken(cores: int) -> Iterator[None]:
    """Keep so many cores busy; which ones is the kernel's choice."""
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(cores)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def attempt(options: list[str]) -> Try:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "compare", *options, "--json"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
    told = json.loads(done.stdout.splitlines()[-1])
    return judged(told["ranking"], told["conclusion"])


def judged(ranking: list[dict[str, Any]], conclusion: list[str]) -> Try:
    """Read one comparison's JSON."""
    places: dict[int, list[str]] = {}
    for each in ranking:
        if each["ranked"]:
            places.setdefault(each["place"], []).append(each["side"])
    order = tuple(" = ".join(sorted(places[place])) for place in sorted(places))
    missed = [each["side"] for each in ranking if each["reason"] == "not-reached"]
    workers = max(each["num_workers"] for each in ranking)
    gains = [float(gain) for said in conclusion for gain in _GAIN.findall(said)]
    return Try(
        order=(*order, *missed) if sum(map(len, places.values())) > 1 else (),
        reasons=tuple(f"{each['side']}: {each['reason']}" for each in ranking if each["reason"]),
        largest_gain=max(gains, default=0.0) / workers,
        largest_measured=max(map(_measured, ranking), default=0.0),
        conclusion=conclusion[0],
    )


def _measured(place: dict[str, Any]) -> float:
    """Give the speed-up of a ranked side over its number of workers."""
    is_ranked = place["ranked"] and place["speed_up"] is not None
    return float(place["speed_up"]["median"]) / place["num_workers"] if is_ranked else 0.0


def say(tries: list[Try], *, is_quiet: bool) -> int:
    """Print what came of all tries; returns the exit code."""
    orders = Counter(" > ".join(each.order) for each in tries if each.order)
    reasons = Counter(reason for each in tries for reason in each.reasons)
    most, count = orders.most_common(1)[0] if orders else ("none", 0)
    largest = max(each.largest_gain for each in tries)
    print(f"a ranking was reached in {orders.total()} of {len(tries)} tries")
    print(f"the same one in {count} of {len(tries)}: {most}")
    for order, times in orders.most_common()[1:]:
        print(f"another one in {times}: {order}")
    print(f"not ranked: {dict(reasons) or 'none'}")
    print(f"largest speed-up named, over the number of workers: {largest:.2f}; at most 1 wanted")
    measured = max(each.largest_measured for each in tries)
    print(f"largest measured of a ranked side, the spread in it: {measured:.2f} times as much")
    is_met = largest <= 1 and (not is_quiet or count >= WANTED_SHARE * len(tries))
    print("met" if is_met else "MISSED")
    return 0 if is_met else 1


if __name__ == "__main__":
    main()
