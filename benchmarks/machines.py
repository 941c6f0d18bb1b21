"""How fast are real machines beside emulated ones, what does encryption cost, how long is a start?

    PYTHONPATH=. python benchmarks/machines.py speed --repetitions 3
    PYTHONPATH=. python benchmarks/machines.py encryption
    PYTHONPATH=. python benchmarks/machines.py ring
    PYTHONPATH=. python benchmarks/machines.py start

The hosts are namespaces of this machine, each with an sshd; needs root. Everything is measured in
turns, and each figure is a ratio within a run, with its spread.

`speed`: steps/s through ssh, torchrun and, where it is installed, Ray over `emulated`, on the same
links with the same encryption, while the hosts' daemons run beside both: LeNet, and 100 MB of
gradients that nothing is computed for. `encryption`: encrypted over plain through ssh, 100 MB, for
two hosts at 1 Gbit and three at 300 Mbit, and the processor seconds per gigabyte that it adds.
`ring`: 100 MB, three hosts at 1 Gbit, plain, against the payload that the link carries, and against
`ddp`. `start`: from the command to the first step, beyond what three imports of torch at once take
on the same hosts, for each way.

With three repetitions, on a quiet machine: `speed` about 11 minutes, `encryption` 6, `ring` 2,
`start` 2. With `--kept build/machines.jsonl` every figure is written as soon as it is measured, and
the next time only those are measured that are not there. A comparison that fails is told, counts as
missed, and the next one is still made.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fill_links import NUM_BYTES, PAYLOAD, median_step_s
from kept import Kept
from made_rates import made_rates
from ratios import Ratio, alternate
from tests.machines.hosts import Hosts
from tests.machines.hosts import why_not as why_no_hosts
from tests.machines.ray_cluster import AUTH, start_ray
from tests.machines.ray_cluster import why_not as why_no_ray
from tests.machines.runs import ON_HOSTS, PACELINE, is_training
from tests.machines.torchruns import c10d, start, told
from tried import Failed, ended, tried

WITHIN_S = 300
_BEYOND_S = 1.5
LENET = ("lenet-mnist", "--strategy", "ring", "--worker-steps", 150, "--eval-samples", 100)
SUBSET = ("--set", "workload.subset=tenth")
SAME = ("threads=1", "record.tensorboard=false", "record.model=false")


class Bench:
    """Hosts, and runs on them or beside them, each in a folder of its own."""

    def __init__(self, hosts: Hosts, bits_per_s: float) -> None:
        self.hosts = hosts
        self.bits_per_s = bits_per_s
        self._num_runs = 0
        self._device = made_rates(hosts.folder, NUM_BYTES)

    def large(self, strategy: str, steps: int = 10) -> tuple[object, ...]:
        """Give the options of a run that only exchanges 100 MB per step."""
        asked = ("synthetic", "--strategy", strategy, "--worker-steps", steps)
        device = ("--device", self._device, "--set", f"workload.bytes={NUM_BYTES}")
        return (*asked, *device, "record.interval_s=1e-6")

    def ssh(self, *asked: object) -> dict[str, Any]:
        names = ",".join(self.hosts.names)
        cluster = ("--cluster", "ssh", "--hosts", names, "--json", "--set", ON_HOSTS, *SAME)
        folder = self.new_folder()
        done = self.hosts.run(
            self.hosts.names[0],
            [*PACELINE, "run", *asked, *cluster],
            cwd=folder,
            timeout=WITHIN_S,
        )
        return _result(done.returncode, done.stdout, done.stderr, folder)

    def torchrun(self, *asked: object) -> dict[str, Any]:
        folder = self.new_folder()
        started = start(
            self.hosts, folder, c10d, *asked[1:], workload=str(asked[0]), same=("--set", *SAME)
        )
        with ended(started.values()):
            said = told(started, WITHIN_S)
        code, _ = said[self.hosts.names[0]]
        if code:  # then there may be no result, and another host may say why
            raise Failed("\n".join(f"{name}: {text}" for name, (_, text) in said.items()))
        (run,) = (folder / "runs").glob("*/result.json")
        return _result(code, run.read_text().replace("\n", " "), "", folder)

    def ray(self, *asked: object) -> dict[str, Any]:
        cluster = ("--cluster", "ray", "--nodes", len(self.hosts.names), "--json", "--set", *SAME)
        folder = self.new_folder()
        command = [*AUTH, *PACELINE, "run", *asked, *cluster]
        done = self.hosts.run(self.hosts.names[0], command, cwd=folder, timeout=WITHIN_S)
        return _result(done.returncode, done.stdout, done.stderr, folder)

    def emulated(self, *asked: object) -> dict[str, Any]:
        number, folder = len(self.hosts.names), self.new_folder()
        link = ("--cluster", "emulated", "--link", f"{self.bits_per_s / 1e6:.0f}mbit")
        command = [*PACELINE, "run", *asked, *link, "--workers", number, "--json", "--set", *SAME]
        done = subprocess.run(
            [*map(str, command)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
        return _result(done.returncode, done.stdout, done.stderr, folder)

    def new_folder(self) -> Path:
        self._num_runs += 1
        made = self.hosts.folder / f"run{self._num_runs}"
        made.mkdir()
        return made


def _result(code: int, stdout: str, stderr: str, folder: Path) -> dict[str, Any]:
    if code:
        raise Failed(f"exit code {code}\n{stdout}\n{stderr}")
    result: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    steps = folder / "runs" / Path(result["run"]).name / "steps.parquet"
    return {**result, "median_step_s": median_step_s(steps)}


@contextlib.contextmanager
def bench(names: Sequence[str], bits_per_s: float) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="paceline-machines-", ignore_cleanup_errors=True)
        )
        hosts = stack.enter_context(Hosts(names, Path(folder), bits_per_s))
        hosts.know_names()
        yield Bench(hosts, bits_per_s)


def speed(count: int, kept: Kept) -> Iterator[bool]:
    """Compare ways to start agents with emulated nodes."""
    with bench(["a", "b", "c"], 1e9) as made:
        lenet = (*LENET, *SUBSET)
        ways = {"ssh": made.ssh, "torchrun": made.torchrun}
        if _has_ray(made.hosts):
            ways["ray"] = made.ray
        for what, asked in (("LeNet", lenet), ("100 MB", made.large("ring"))):
            beside = (*asked, "--set", "cluster.encrypt=true")
            rate = _steps_per_s if what == "LeNet" else _median_rate
            for name, way in ways.items():
                title = f"{what}, {name} / emulated, encrypted"
                ours = partial(_rate_of, rate, way, asked)
                theirs = partial(_rate_of, rate, made.emulated, beside)
                both = _alternated(kept, title, ours, theirs, count)
                yield both is not None and _told(both, 0.95)


def _has_ray(hosts: Hosts) -> bool:
    """Start Ray on the hosts, if there is one; says why it is left out."""
    if (missing := why_no_ray()) is not None:
        print(f"without Ray: {missing}", flush=True)
        return False

    def begun() -> bool:
        start_ray(hosts)
        return True

    return tried("Ray on the hosts", begun) or False


def encryption(count: int, kept: Kept) -> Iterator[bool]:
    """Compare encrypted with plain."""
    for names, bits_per_s in ((["a", "b"], 1e9), (["a", "b", "c"], 3e8)):
        with bench(names, bits_per_s) as made:
            title = f"{len(names)} hosts at {bits_per_s / 1e6:.0f} Mbit, encrypted / plain"
            both: dict[bool, list[Sequence[float]]] = {True: [], False: []}

            def rate(
                encrypts: bool,
                title: str = title,
                made: Bench = made,
                both: dict[bool, list[Sequence[float]]] = both,
            ) -> float:
                key = f"{title}, encrypts={encrypts}, {len(both[encrypts]) + 1}"
                both[encrypts].append(kept(key, partial(_rate_and_cpu, made, encrypts)))
                return both[encrypts][-1][0]

            turns = partial(alternate, title, partial(rate, True), partial(rate, False), count)
            if (found := tried(title, turns)) is None:
                yield False
                continue
            yield _told(found, 0.95)
            secure, plain = (
                statistics.median(cpu_s for _, cpu_s in both[each]) for each in (True, False)
            )
            print(
                f"  CPU seconds per GB sent: {secure:.2f} encrypted, {plain:.2f} plain", flush=True
            )


def _rate_and_cpu(made: Bench, encrypts: bool) -> Sequence[float]:
    result = made.ssh(*made.large("ring"), f"cluster.encrypt={str(encrypts).lower()}")
    return _median_rate(result), _cpu_s_per_gb(result)


def ring(count: int, kept: Kept) -> Iterator[bool]:
    """Compare the ring with its link, and with ddp."""
    with bench(["a", "b", "c"], 1e9) as made:
        plain = "cluster.encrypt=false"

        def fill(*asked: object) -> float:
            result = made.ssh(*asked, plain)
            a_step = 2 * 2 / 3 * NUM_BYTES  # of three workers, each way
            share: float = 8 * a_step / result["median_step_s"] / (made.bits_per_s * PAYLOAD)
            return share

        trusted = "cluster.trusted_network=true"
        both = _alternated(
            kept,
            "ring / ddp",
            lambda: fill(*made.large("ring")),
            lambda: fill(*made.large("ddp"), trusted),
            count,
        )
        if both is None:
            yield False
            return
        yield _told(Ratio("ring / link", both.ours, [1.0] * count), 0.97)
        yield _told(both, 1.0)


def start_up(count: int, kept: Kept) -> Iterator[bool]:
    """Say how much longer a start takes than the imports it waits for."""
    with bench(["a", "b", "c"], 1e9) as made:
        ways = {"ssh": _over_ssh, "torchrun": _over_torchrun}
        if _has_ray(made.hosts):
            ways["ray"] = _over_ray
        measures = {name: partial(_first_step_s, made, begin) for name, begin in ways.items()}
        all_of_it = {"imports": partial(_imports_s, made.hosts), **measures}
        each = {name: kept.repeated(f"start, {name}", it) for name, it in all_of_it.items()}
        rounds = [
            {name: tried(f"start, {name}", measure) for name, measure in each.items()}
            for _ in range(count)
        ]
        for name in ways:
            yield _start_told(name, rounds)


def _start_told(name: str, rounds: Sequence[Mapping[str, float | None]]) -> bool:
    """Say how long starts by one way took; whether that is what is wanted, where it is."""
    found = [(it[name], it["imports"]) for it in rounds]
    both = [(own, imports) for own, imports in found if own is not None and imports is not None]
    if not both:
        return False
    print(f"{name}, command to first step: {_spread(own for own, _ in both)}")
    print(f"  three imports of torch at once: {_spread(imports for _, imports in both)}")
    beyond = [own - imports for own, imports in both]
    is_met = name != "ssh" or statistics.median(beyond) <= _BEYOND_S
    verdict = f"; wanted at most {_BEYOND_S}: {'met' if is_met else 'MISSED'}"
    print(f"  beyond the imports: {_spread(beyond)}{verdict if name == 'ssh' else ''}", flush=True)
    return is_met and len(both) == len(rounds)


def _spread(figures: Iterable[float]) -> str:
    seconds = [*figures]
    low, high = min(seconds), max(seconds)
    return f"{statistics.median(seconds):.2f} s ({low:.2f} to {high:.2f}, n={len(seconds)})"


def _imports_s(hosts: Hosts) -> float:
    began_s = time.monotonic()
    started = [hosts.start(each, [sys.executable, "-c", "import torch"]) for each in hosts.names]
    with ended(started):
        for each in started:
            _, told = each.communicate(timeout=WITHIN_S)
            if each.returncode:
                raise Failed(told)
    return time.monotonic() - began_s


Started = Callable[[Bench, Path], "list[subprocess.Popen[str]]"]


def _first_step_s(made: Bench, begin: Started) -> float:
    folder = made.new_folder()
    began_s = time.monotonic()
    started = begin(made, folder)
    with ended(started):
        while not is_training(folder):
            if started[0].poll() is not None:
                raise Failed(str(started[0].communicate(timeout=WITHIN_S)))
            if time.monotonic() > began_s + WITHIN_S:
                raise Failed(f"no step within {WITHIN_S} s")
            time.sleep(0.005)
        took_s = time.monotonic() - began_s
        for each in started:
            made.hosts.send(each, signal.SIGINT)
        for each in started:
            each.communicate(timeout=WITHIN_S)
    return took_s


def _over_ssh(made: Bench, folder: Path) -> list[subprocess.Popen[str]]:
    cluster = ("--cluster", "ssh", "--hosts", ",".join(made.hosts.names), *SUBSET, ON_HOSTS, *SAME)
    command = [*PACELINE, "run", "logistic-mnist", "--strategy", "ring", "--seconds", 60, *cluster]
    return [made.hosts.start(made.hosts.names[0], command, cwd=folder)]


def _over_ray(made: Bench, folder: Path) -> list[subprocess.Popen[str]]:
    cluster = ("--cluster", "ray", "--nodes", len(made.hosts.names), *SUBSET, *SAME)
    run = ("run", "logistic-mnist", "--strategy", "ring", "--seconds", 60)
    command = [*AUTH, *PACELINE, *run, *cluster]
    return [made.hosts.start(made.hosts.names[0], command, cwd=folder)]


def _over_torchrun(made: Bench, folder: Path) -> list[subprocess.Popen[str]]:
    asked = ("--strategy", "ring", "--seconds", 60)
    return [*start(made.hosts, folder, c10d, *asked, same=(*SUBSET, *SAME)).values()]


def _alternated(
    kept: Kept, title: str, ours: Callable[[], float], theirs: Callable[[], float], count: int
) -> Ratio | None:
    """Measure the two in turn, those that are not kept; None if that failed."""
    sides = {"ours": ours, "theirs": theirs}
    kept_sides = [kept.repeated(f"{title}, {name}", each) for name, each in sides.items()]
    return tried(title, partial(alternate, title, kept_sides[0], kept_sides[1], count))


def _rate_of(
    rate: Callable[[dict[str, Any]], float],
    way: Callable[..., dict[str, Any]],
    asked: tuple[object, ...],
) -> float:
    return rate(way(*asked))


def _steps_per_s(result: dict[str, Any]) -> float:
    return float(result["steps_per_s"])


def _median_rate(result: dict[str, Any]) -> float:
    """Bits per second of a worker's gradients, by the median step."""
    return 8 * NUM_BYTES / float(result["median_step_s"])


def _cpu_s_per_gb(result: dict[str, Any]) -> float:
    used_s = sum(each["cpu_percent_mean"] / 100 for each in result["nodes"]) * result["train_s"]
    sent = 2 * (result["num_workers"] - 1) * NUM_BYTES * result["global_steps"]
    return float(used_s / (sent / 1e9))


def _told(ratio: Ratio, wanted: float) -> bool:
    print(ratio.line(wanted), flush=True)
    return ratio.is_met(wanted)


PARTS = {"speed": speed, "encryption": encryption, "ring": ring, "start": start_up}


def _carried_out(part: str, count: int, kept: Kept) -> list[bool]:
    """Say of each comparison of a part whether it is what is wanted."""
    met = tried(part, lambda: [*PARTS[part](count, kept)])
    return [False] if met is None else met


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--kept", type=Path, help="figures already measured; more are added")
    arguments = parser.parse_args()
    if (missing := why_no_hosts()) is not None:
        print(f"no hosts can be made here: {missing}")
        return 1
    kept = Kept(arguments.kept)
    chosen = arguments.parts or [*PARTS]
    if unknown := [each for each in chosen if each not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    met = [each for part in chosen for each in _carried_out(part, arguments.repetitions, kept)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
