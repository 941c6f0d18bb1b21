"""How strategies scale from 1 to 6 workers under replayed compute, against the closed form.

    python benchmarks/speed_ups.py [--networks resnet50,vgg16] [--links 2gbit,10gbit]
        [--strategies ring,ps-sync,ps-async] [--workers 1,2,3,4,5,6] [--budget 4] [--seconds 15]
    python benchmarks/speed_ups.py --stored runs/study-ps-vs-ring-full

Every network is replayed at a K80's rates on an emulated cluster, servers on nodes of their own,
plain SGD. Time is slowed as far as it takes for all links together to carry no more than `--budget`
Gbit/s of real traffic, and one connection no more than 1: on two cores one does not fill 2, where
two do. A run that says of itself that this host could not keep up is made again, twice as slow, up
to two times: the last is printed. A run has about `--seconds` real seconds, and four steps at
least. Measured are the steps between a worker's first row and its last but one: the first step
opens connections, the last one compares parameters. Printed are images per second, measured over
predicted, and the speed-up over one worker alone, measured and predicted, and what of the exchange
computing cannot hide. For `ps-async` the prediction is of workers in step with each other; once
they have spread they may be quicker, up to the bound printed.

With `--stored` nothing is run: the finished runs of the study `ps-vs-ring` are held against the
closed form in the same way, at whatever links, workers and dilation they were made.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import polars

import paceline
from paceline.arithmetic.closed_form import ps_async_steps_per_s
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.step import ComputeStep
from paceline.description import parse_rate
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.workloads.anatomy import FLOAT_BYTES, examine

NETWORKS = ("alexnet", "vgg16", "resnet50", "resnet152")
STRATEGIES = ("ring", "ps-sync", "ps-async")
DEVICE = "replay:k80"
BATCH = 32
LEAST_STEPS = 4
MOST_OF_ONE_CONNECTION = 1e9
# How often a case is slowed down twofold because its run was limited by this host.
MOST_SLOWER = 2
MOST_STEPS = 40
QUIET = {"tensorboard": False, "model": False, "monitor": False, "interval_s": 1e-6}
WITHIN = 0.1
RING_OVER_SERVER = 2.0


@dataclass(frozen=True)
class Case:
    network: str
    strategy: str
    num_workers: int
    link: str

    @property
    def link_bits_per_s(self) -> float:
        return float(str(parse_rate(self.link)))

    @property
    def num_nodes(self) -> int:
        return self.num_workers + self.strategy.startswith("ps-")

    def dilation(self, budget_bits_per_s: float) -> float:
        """Slow time so far that this machine can carry the traffic."""
        if self.strategy == "ring" and self.num_workers == 1:
            return 1.0
        # Of a parameter server's links only the server's own is ever full, and all share it.
        is_server = self.strategy.startswith("ps-")
        full, connections = (1, self.num_workers) if is_server else (self.num_workers, 1)
        link = self.link_bits_per_s
        return max(
            1.0, full * link / budget_bits_per_s, link / connections / MOST_OF_ONE_CONNECTION
        )

    def spec(self, dilation: float, worker_steps: int) -> RunSpec:
        strategy: dict[str, object] = {"name": self.strategy}
        if self.strategy.startswith("ps-"):
            strategy["placement"] = "separate"
        return RunSpec.from_table(
            {
                "workload": {"name": f"{self.network}-cifar10"},
                "strategy": strategy,
                "cluster": {"name": "emulated", "link": self.link},
                "optimizer": {"name": "sgd", "lr": 0.0001},
                "record": QUIET,
                "device": DEVICE,
                "dilation": dilation,
                "num_workers": self.num_workers,
                "batch": BATCH,
                "worker_steps": worker_steps,
            }
        )


@functools.cache
def step_of(network: str) -> ComputeStep:
    """A network's step without any exchange."""
    spec = RunSpec.from_table({"workload": f"{network}-cifar10", "device": DEVICE, "batch": BATCH})
    layers = examine(spec.workload).layers
    times = spec.rates().layer_times([(each.name, each.multiply_adds) for each in layers], BATCH)
    return ComputeStep.of(
        [
            (time.forward_s, time.backward_s, FLOAT_BYTES * layer.num_parameters)
            for time, layer in zip(times, layers, strict=True)
        ]
    )


def predicted_per_s(case: Case, step: ComputeStep) -> float:
    """Worker steps a second of all workers together, by the model that plans are made of."""
    exchange = case.spec(1.0, LEAST_STEPS).strategy.pattern(case.num_workers)
    assert exchange is not None
    situation = Situation(
        step=step,
        network=Network(link=LinkRate(bits_per_s=case.link_bits_per_s)),
        num_workers=case.num_workers,
        num_nodes=case.num_workers,
    )
    return forecast(exchange, situation).worker_steps_per_s


def bound_per_s(case: Case, step: ComputeStep) -> float:
    """The most there can be: `ps-async` with workers that have spread; else what is predicted."""
    predicted = predicted_per_s(case, step)
    if case.strategy != "ps-async":
        return predicted
    link = LinkRate(bits_per_s=case.link_bits_per_s)
    spread = ps_async_steps_per_s(step, link, case.num_workers, separate=True, spread=True)
    return max(predicted, spread)


@dataclass(frozen=True)
class Measured:
    """What came of a case."""

    per_s: float
    """Worker steps a second of all workers together."""
    dilation: float
    host_limited: bool


def measured(run: StoredRun) -> Measured:
    """Read what a run made from its rows: a worker's first to its last but one, if there are."""
    rows = polars.read_parquet(run.folder.steps)
    total = 0.0
    for worker in run.result.workers:
        own = rows.filter(seat=worker.name).sort("time_s")[:-1]
        if len(own) < 2:  # so quick that steps shared a row
            total += worker.worker_steps / worker.train_s
            continue
        steps = own["worker_steps"][-1] - own["worker_steps"][0]
        total += steps / (own["time_s"][-1] - own["time_s"][0])
    return Measured(total, run.result.dilation, run.result.host_limited)


def measure(case: Case, step: ComputeStep, budget_bits_per_s: float, seconds: float) -> Measured:
    """Run a case; slower again where its run says that this host could not keep up."""
    dilation = case.dilation(budget_bits_per_s)
    for _ in range(MOST_SLOWER):
        got = run_once(case, step, dilation, seconds)
        if not got.host_limited:
            return got
        dilation *= 2
    return run_once(case, step, dilation, seconds)


def run_once(case: Case, step: ComputeStep, dilation: float, seconds: float) -> Measured:
    cycle_s = dilation * case.num_workers / predicted_per_s(case, step)
    worker_steps = max(LEAST_STEPS, min(MOST_STEPS, round(seconds / cycle_s)))
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(case.spec(dilation, worker_steps), out=out)
        return measured(StoredRun.read(RunDir(Path(result.run))))


def stored(folder: Path) -> Iterator[tuple[Case, Measured]]:
    """Give the finished runs of the study that replay a device, by network, link and workers."""
    found: dict[Case, Measured] = {}
    sealed = (RunDir(each) for each in sorted((folder / "runs").iterdir()))
    for run in (StoredRun.read(each) for each in sealed if each.is_sealed):
        if not run.is_finished or run.spec["device"] != DEVICE:
            continue
        network = run.result.workload.removesuffix("-cifar10")
        link = f"{float(run.spec['cluster']['link']) / 1e9:g}gbit"
        found[Case(network, run.result.strategy, run.result.num_workers, link)] = measured(run)
    for case in sorted(found, key=astuple):
        yield case, found[case]


def tell(case: Case, step: ComputeStep, got: Measured) -> bool:
    """Print a case beside its prediction; gives whether it is close."""
    predicted, bound = predicted_per_s(case, step), bound_per_s(case, step)
    ratio = got.per_s / predicted
    is_within = ratio >= 1 - WITHIN and got.per_s <= (1 + WITHIN) * bound
    spread = f", {BATCH * bound:.1f} if spread" if bound > predicted else ""
    limited = ", host-limited" if got.host_limited else ""
    print(
        f"{case.network:>9} {case.strategy:>8} {case.num_workers} x {case.link:>6}: "
        f"{BATCH * got.per_s:7.1f} images/s, {ratio:.3f} of the {BATCH * predicted:7.1f} "
        f"predicted{spread}; "
        f"speed-up {step.compute_s * got.per_s:.2f} against {step.compute_s * predicted:.2f}; "
        f"a step of {case.num_workers / got.per_s:.3f} s, computing {step.compute_s:.3f}, "
        f"not hidden {case.num_workers / predicted - step.compute_s:.3f} "
        f"(dilated {got.dilation:g}x{limited}): {'met' if is_within else 'MISSED'}",
        flush=True,
    )
    return is_within


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    for network in arguments.networks.split(","):
        for link in arguments.links.split(","):
            for strategy in arguments.strategies.split(","):
                for num_workers in map(int, arguments.workers.split(",")):
                    yield Case(network, strategy, num_workers, link)


def carried_out(arguments: argparse.Namespace) -> Iterator[tuple[Case, Measured]]:
    for case in cases(arguments):
        step = step_of(case.network)
        yield case, measure(case, step, 1e9 * arguments.budget, arguments.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--links", default="2gbit,10gbit")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--workers", default="1,2,3,4,5,6")
    parser.add_argument("--budget", type=float, default=4.0, help="Gbit/s of real traffic")
    parser.add_argument("--seconds", type=float, default=15.0, help="real seconds a run")
    parser.add_argument("--stored", type=Path, help="the folder of a study that was carried out")
    arguments = parser.parse_args()
    rates: dict[Case, float] = {}
    all_met = True
    for case, got in stored(arguments.stored) if arguments.stored else carried_out(arguments):
        all_met &= tell(case, step_of(case.network), got)
        rates[case] = got.per_s
    for case, rate in rates.items():
        server = rates.get(Case(case.network, "ps-sync", case.num_workers, case.link))
        if case.strategy == "ring" and case.num_workers == 6 and server:
            print(f"{case.network} at {case.link}: ring over ps-sync {rate / server:.2f}", end="")
            if case.network == "resnet50" and case.link == "2gbit":
                all_met &= rate / server >= RING_OVER_SERVER
                verdict = "met" if rate / server >= RING_OVER_SERVER else "MISSED"
                print(f"; wanted {RING_OVER_SERVER:.2f}: {verdict}", end="")
            print(flush=True)
    return 0 if all_met else 1


if __name__ == "__main__":
    sys.exit(main())
