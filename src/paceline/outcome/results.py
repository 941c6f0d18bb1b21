"""What is known of a run when it is over: result.json, and `--json`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, Literal, Self, final

from paceline.errors import StoreError
from paceline.outcome.buckets import BucketTotals
from paceline.outcome.disturbed import Disturbance
from paceline.outcome.facts import MOST_WORKERS
from paceline.reading import schema
from paceline.training.metrics import Better

Status = Literal["finished", "failed", "interrupted"]
CountedBy = Literal["qdisc", "transports"]
VerdictKind = Literal[
    "compute", "input", "link", "server", "straggler", "exchange", "host-limited", "balanced"
]


@final
@dataclass(frozen=True, kw_only=True)
class NodeUsage:
    """What one node used while training; None where it was not measured."""

    name: str
    seats: tuple[str, ...]
    num_cores: float | None = None
    """How many cores it may use."""
    threads: int | None = None
    """Compute threads of each of its workers."""
    cpu_percent_mean: float | None = None
    """Of one core: two busy cores are 200."""
    cpu_percent_peak: float | None = None
    cpu_node_percent_mean: float | None = None
    """Of all cores the node has."""
    cpu_node_percent_peak: float | None = None
    memory_mean_bytes: int | None = None
    memory_peak_bytes: int | None = None
    net_sent_bytes: int | None = None
    """Payload, without the headers of packets."""
    net_received_bytes: int | None = None
    packets_sent: int | None = None
    packets_received: int | None = None
    network_counted_by: CountedBy | None = None
    """`qdisc`: by the kernel, at both ends of the node's link. `transports`: by the senders,
    including what is exchanged within a node."""
    link_bits_per_s: float | None = None
    """The configured rate, headers included."""
    link_sent_bits_per_s: float | None = None
    """The rate measured before the run."""
    link_received_bits_per_s: float | None = None
    clock_offset_s: float | None = None
    """How far the node's clock was ahead of the driver's when the run began; None: they are one."""
    clock_uncertainty_s: float | None = None
    """By how much that may be wrong."""
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    device_busy_percent: float | None = None
    """Replayed compute: how much of the time the node's devices computed, on average."""


@final
@dataclass(frozen=True, kw_only=True)
class PairRate:
    """One node's way to another, as measured before the run."""

    sender: str
    receiver: str
    bits_per_s: float
    """Headers included."""
    round_trip_s: float


OPTIMIZER_STATES: Final = "optimizer_states"
"""In `WorkerTotals.other` of a script: values that its optimizers keep for each parameter."""


@final
@dataclass(frozen=True, kw_only=True)
class WorkerTotals:
    """What one worker did."""

    name: str
    worker_steps: int
    samples: int
    train_s: float
    load_s: float | None = None
    compute_s: float | None = None
    exchange_s: float | None = None
    cpu_s: float | None = None
    """CPU time of the stepping thread, without the compute threads that help it."""
    ready_s: float | None = None
    """How long that thread was ready to run and waited for a core."""
    most_ready_s: float | None = None
    """The same of the thread that waited longest."""
    memory_peak_bytes: int | None = None
    """The most that was resident at once, from its start to the end of training."""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    refused: int | None = None
    """Refused steps: its own gradient was not finite, or one of the same update."""
    refused_because: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many of them for what: NaN, infinite, too large, of another worker."""
    dropped_frames: int | None = None
    """Messages that were not of this run, or damaged, or made no sense; None without messages."""
    rejected_peers: int | None = None
    """How many connections were refused before sending a message; None without messages."""
    times_last: int | None = None
    """How many synchronous updates it was the last to arrive at."""
    late_s: float | None = None
    """By how much it arrived after the first at synchronous updates, in all."""
    wait_s: float | None = None
    """How much of `exchange_s` it waited for slower workers, in all."""
    queue_s: float | None = None
    """How much of it its pushes waited before a server looked at them; None where it is not
    known."""
    apply_s: float | None = None
    """How much of it the worker applied updates itself; None where a server does."""
    hidden_s: float | None = None
    """How long gradients were on their way while the worker still computed, in all."""
    algorithm: str | None = None
    """Which all-reduce `strategy.algorithm=auto` chose; None where it was not asked for."""
    round_trip_s: float | None = None
    """The round trip to a neighbour that it measured for that."""
    device_busy_s: float | None = None
    """Replayed compute: how long its device computed, in all."""
    late_steps: int | None = None
    """Replayed compute: steps whose compute the host could not end in time; None where that cannot
    be told, as within torch's own back-propagation."""
    buckets: tuple[BucketTotals, ...] = ()
    """Where gradients leave in groups: what became of each."""
    other: dict[str, float] = dataclasses.field(default_factory=dict)
    """What a strategy or a workload of your own counts beside: finite numbers by name."""


@final
@dataclass(frozen=True, kw_only=True)
class ServerTotals:
    """What one server did."""

    name: str
    updates: int
    dropped: int
    """Gradients that came too late for their update."""
    refused: int
    cpu_s: float | None
    """Processor time of the thread that serves."""
    apply_s: float
    """Time spent averaging gradients and applying updates."""
    queue_s: float | None
    """Time that pushes waited before the server looked at them; None where it is not known."""
    ready_s: float | None = None
    """As of a worker."""
    most_ready_s: float | None = None
    busy_s: float | None = None
    """Time that it did not wait."""
    dropped_frames: int | None = None
    """As of a worker."""
    rejected_peers: int | None = None
    other: dict[str, float] = dataclasses.field(default_factory=dict)
    """As of a worker."""


@final
@dataclass(frozen=True, kw_only=True)
class Staleness:
    """How many updates others made between a worker's pull and its push, over all updates."""

    mean: float
    p50: int
    p99: int
    max: int
    histogram: dict[str, int]
    """Number of updates by staleness."""


@final
@dataclass(frozen=True, kw_only=True)
class NodeTraffic:
    """What a node sent and received while training, beside what theory says."""

    node: str
    sent_bytes: int
    expected_sent_bytes: int
    sent_ratio: float | None
    """Measured over expected; None where nothing was expected."""
    received_bytes: int
    expected_received_bytes: int
    received_ratio: float | None


@final
@dataclass(frozen=True, kw_only=True)
class PairTraffic:
    """What one node sent to another while training, as those who sent it counted it."""

    sender: str
    receiver: str
    num_bytes: int


@final
@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What travelled between nodes while training."""

    nodes: tuple[NodeTraffic, ...]
    """Empty where the strategy has no closed form, or bytes were not counted."""
    pairs: tuple[PairTraffic, ...]
    """Empty where a library sends by itself, as under `ddp`."""


@final
@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What limited a run, and what to try next."""

    kind: VerdictKind
    where: str | None
    """A node or a seat; `host` is the machine itself. None where nothing stands out."""
    sentence: str
    evidence: dict[str, float]
    """The measured shares that it rests on, 1 being all."""
    suggestion: str | None = None
    """None where the measured parts support none."""
    expected_gain: float | None = None
    """Samples per second with the suggestion followed, over those of this run; None: not known."""


@final
@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run."""

    run: str
    """The path of its directory."""
    status: Status
    reason: str | None = None
    """Why it did not finish."""
    workload: str
    strategy: str
    cluster: str
    meaning: str
    """What was computed, in words."""
    in_step: bool | None = None
    """Whether one global step is one step of every worker; None in results of older versions."""
    chunk_bytes: int | None = None
    """The size of the pieces in which a push travels; None without servers."""
    data: str | None = None
    skipped_rows: int = 0
    """Bad rows that were left out."""
    buffers_of: str | None = None
    """Whose buffers, such as statistics of batch normalisation, were evaluated: each worker keeps
    its own. None where the model has none."""
    compute: Literal["real", "replayed"] = "real"
    """Whether gradients were computed, or only the time passed that a device would take."""
    device: str = "cpu"
    dilation: float = 1.0
    """How many real seconds each second of this result took; see the guide on replay."""
    latency_s: float = 0.0
    """By how much emulated nodes delayed what one sent another, one way."""
    host_limited: bool = False
    """Whether this machine was too full for what it was to carry, so that its figures say nothing
    about other machines; true wherever the verdict is `host-limited`."""
    parent: str | None = None
    """The run that this one goes on from; None: it began anew."""
    parent_step: int | None = None
    """How far that run was in the checkpoint: its steps are counted here too."""
    attempts: tuple[str, ...] = ()
    """The runs that lost a seat before this one, each the parent of the next."""
    num_checkpoints: int = 0
    """How many checkpoints were written."""
    checkpoint_s: float = 0.0
    """How long training stood still for them in all: the time that copying took."""
    num_workers: int
    batch_size: int
    seed: int
    threads: int | None = None
    """Compute threads per worker."""
    threads_why: str | None = None
    """What was measured to find that number; None where nothing had to be."""
    sent_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """The user's own files that went to other machines and ran there, each with its SHA-256."""
    listeners: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """Where the driver and the seats listened, each by its name."""
    refused_calls: int = 0
    """How many called the driver whom it had not invited."""
    global_steps: int | None = None
    """Updates of the shared parameters; None where nothing is shared."""
    worker_steps: int = 0
    """Mini-batches of all workers together."""
    refused_steps: int = 0
    """How many of them were refused, because a gradient was not finite."""
    samples: int = 0
    train_s: float | None = None
    steps_per_s: float | None = None
    worker_steps_per_s: float | None = None
    samples_per_s: float | None = None
    steady_samples_per_s: float | None = None
    """The same with the first tenth of the time left out."""
    final_loss: float | None = None
    """Mean training loss over the last tenth of the steps."""
    test_accuracy: float | None = None
    test_loss: float | None = None
    test_metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    better: dict[str, Better] = dataclasses.field(default_factory=dict)
    """Whether `higher` or `lower` is better of a metric; those first by which runs are compared
    first. A metric that is missing here is only shown."""
    target: str | None = None
    """What had to be reached, as in `accuracy>=0.9 and mae<=0.2`."""
    seconds_to_target: float | None = None
    evaluation_s: float | None = None
    startup_s: float | None = None
    """From the start of the command's work to the start of training."""
    joining_s: float | None = None
    """From the first seat that was ready to the last."""
    steal_s: float | None = None
    """CPU time that the hypervisor gave to others meanwhile."""
    host_cpu_percent: float | None = None
    """Of all cores of the machine, while training, by all programs."""
    host_cores: int | None = None
    """How many cores the machine has."""
    disk_busy_percent: dict[str, float] = dataclasses.field(default_factory=dict)
    """The part of the time that a disk of the machine had something to do, by its name."""
    model_bytes: int | None = None
    """All parameters, a table of rows included."""
    touched_rows: int | None = None
    """Rows of the model's table that a batch touches, as the last one did; None without table."""
    row_bytes: int | None = None
    """Bytes of such a row."""
    warnings: tuple[str, ...] = ()
    nodes: tuple[NodeUsage, ...] = ()
    workers: tuple[WorkerTotals, ...] = ()
    servers: tuple[ServerTotals, ...] = ()
    staleness: Staleness | None = None
    """None where there is none."""
    pairs: tuple[PairRate, ...] = ()
    """Each node's way to each other, where nodes are machines of their own."""
    traffic: Traffic | None = None
    """What travelled between nodes, measured and by theory; None where there is one node."""
    disturbances: tuple[Disturbance, ...] = ()
    """Faults that struck and seats that were lost, in the order in which they did."""
    goodput: float | None = None
    """The part of all workers' time in which they trained, undisturbed being 1; None where nothing
    disturbed the run."""
    dropped_steps: int = 0
    """Steps whose gradients came to nothing: they needed those of a worker that was lost."""
    rows_lost: int | None = None
    """About how many rows of workers that were away were not trained on; None where none was."""
    verdict: Verdict | None = None
    """What limited it; None for a run that is too short."""

    @property
    def label(self) -> str:
        """Say what kind of figures these are: to stand wherever they do."""
        return label(self.compute, self.device, self.dilation)

    @property
    def full_label(self) -> str:
        """The same, and whether this machine kept up."""
        return f"{self.label}, host-limited" if self.host_limited else self.label

    def judged(self, verdict: Verdict | None) -> Self:
        """Give the same with its verdict, and `host_limited` as the verdict has it.

        A replayed run that is too short for a verdict may be limited without one.
        """
        limited = self.host_limited if verdict is None else verdict.kind == "host-limited"
        return dataclasses.replace(self, verdict=verdict, host_limited=limited)

    def table(self) -> dict[str, Any]:
        """Give all as plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Self:
        """Read what `table` gave; fields of a later version are left aside.

        Raises `StoreError` where a value is not of its field's type.
        """
        try:
            made = schema.read(cls, table)
        except ValueError as error:
            raise StoreError(f"not a result: {error}") from error
        if not 1 <= made.num_workers <= MOST_WORKERS:
            raise StoreError(f"not a result: num_workers = {made.num_workers}")
        return made.judged(made.verdict)


def label(compute: str, device: str, dilation: float) -> str:
    """Say in words how computing was done, and whether time was slowed for it."""
    if compute == "real":
        return "real compute"
    name = PurePath(device.partition(":")[2]).name.removesuffix(".toml")
    slowed = f", dilated {dilation:g}x" if dilation != 1 else ""
    return f"replayed compute ({name}){slowed}"
