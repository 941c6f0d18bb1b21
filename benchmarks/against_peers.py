"""The same training by us and by what one would pick instead, in one go.

    python benchmarks/against_peers.py --peers .venv-peers/bin/python

Logistic regression on all of MNIST (784 x 10, batch 75, plain SGD), and a sparse one on generated
rows (33,762,578 weights, 39 nonzeros a row, batch 100), with workers that are processes of this
host. Every contender is started anew in each repetition, warms up and is then timed; they take
turns, and a ratio is of one repetition. A peer that is not installed or does not run is a row that
says why; the others go on. Then comes all-reduce: see all_reduce.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from all_reduce import compare as compare_all_reduce
from contenders import COMPARISONS, CONTENDERS, Bench, Comparison
from trials import Trials, spread, table, take_turns

from paceline.workloads.data.catalogue import default_data_dir

ALL_REDUCE = "all-reduce"
BY_NAME = {contender.name: contender for contender in CONTENDERS}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def names_of(text: str) -> list[str]:
    """The names in --only, and those of ours they are compared with; all if there are none."""
    known = (*BY_NAME, ALL_REDUCE)
    wanted = [name for name in text.replace(" ", ",").split(",") if name]
    for name in wanted:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    if not wanted:
        return list(known)
    against = {each.ours for each in COMPARISONS if each.peer in wanted}
    return [name for name in known if name in against or name in wanted]


def compare(bench: Bench, names: Sequence[str], repetitions: int) -> None:
    settings: dict[str, str] = {}

    def measure(name: str) -> float:
        measured = BY_NAME[name].measure(bench)
        settings[name] = measured.setting
        return measured.rate

    trials = take_turns(names, measure, repetitions, say)
    print(rates_table(trials, settings), end="\n\n")
    print(ratios_table(trials), flush=True)


def rates_table(trials: Trials, settings: dict[str, str]) -> str:
    rows = []
    for name in trials.rates:
        rates = trials.measured(name)
        rate = f"{spread(rates)} {BY_NAME[name].unit}" if rates else "did not run"
        rows.append((name, rate, trials.reasons.get(name) or settings[name]))
    return table(("contender", "rate", "how"), rows)


def ratios_table(trials: Trials) -> str:
    held = [each for each in COMPARISONS if {each.ours, each.peer} <= trials.rates.keys()]
    return table(
        ("ours", "over", "ratio", "wanted", ""), [_ratio_row(trials, each) for each in held]
    )


def _ratio_row(trials: Trials, each: Comparison) -> tuple[str, str, str, str, str]:
    ratio = trials.ratio(each.ours, each.peer)
    wanted = "" if each.wanted is None else f"{each.wanted:g}"
    if ratio is None:
        return each.ours, each.peer, "not both ran", wanted, ""
    verdict = "" if each.wanted is None else "met" if ratio.median >= each.wanted else "MISSED"
    return each.ours, each.peer, spread(ratio.each, 2), wanted, verdict


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", type=Path, required=True, help="the peers' python")
    parser.add_argument("--only", type=names_of, default=[*BY_NAME, ALL_REDUCE], metavar="NAME,...")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is timed")
    parser.add_argument("--warm-up-s", type=float, default=2.0)
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    arguments = parser.parse_args()
    # Not resolved: python finds its environment by the link's own place.
    peers = arguments.peers.absolute()
    bench = Bench(peers, arguments.data_dir, arguments.warm_up_s, arguments.seconds)
    if names := [name for name in arguments.only if name != ALL_REDUCE]:
        compare(bench, names, arguments.repetitions)
    if ALL_REDUCE in arguments.only:
        compare_all_reduce(peers, arguments.repetitions)


if __name__ == "__main__":
    main()
