"""Files that say how long a device takes for a workload's step, layer by layer.

Reading one needs no torch: the driver does so to check what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from importlib import resources
from pathlib import Path
from typing import Any, Final, final

from paceline.description import Count, Description, NotNegative, Positive, build
from paceline.errors import Problem, SpecError
from paceline.reading import untrusted
from paceline.system.named_files import found_at

PREFIX: Final = "replay:"
REAL: Final = "cpu"
_MOST_BYTES: Final = 16 * untrusted.MIB
_MOST_SHOWN: Final = 40
# Back-propagation multiplies twice for each multiplication forward: once for the gradient of the
# weights, once for that of the inputs.
_BACKWARD_SHARE: Final = 2 / 3


@final
class LayerTime(Description):
    """How long one layer takes, forward and backward."""

    layer: str
    """Its name in the model."""
    forward_s: NotNegative = 0.0
    backward_s: NotNegative = 0.0


@final
class Rates(Description):
    """How long a device takes for one workload."""

    batch: Count
    """For how many rows per step the figures are."""
    rows_per_s: Positive | None = None
    """Forward, backward and the update together, where that is all that is known."""
    layers: tuple[LayerTime, ...] = ()
    """In the order they are computed."""
    update_s: NotNegative = 0.0
    """What the device takes besides to apply its own gradients, where it is the one to do so."""
    step_factors: tuple[Positive, ...] = ()
    """Measured steps over the typical one, ascending: how much they vary."""
    varies: bool = False
    """Whether replayed steps vary by `step_factors` too; else all are alike."""
    worker_factors: tuple[Positive, ...] = ()
    """How many times as long the steps of each of the first workers take; 1 those of others."""
    num_rows: Count | None = None
    """Rows of the training data."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The workload's fields that the figures are for."""
    note: str = ""
    """What a reader of a result should know."""

    @property
    def name(self) -> str:
        return "rates"

    def problems(self) -> Iterator[Problem]:
        if (self.rows_per_s is None) == (not self.layers):
            reason = "give either rows_per_s or layers"
            yield Problem("rows_per_s", self.rows_per_s, reason)
        if self.varies and not self.step_factors:
            yield Problem("varies", self.varies, "needs step_factors, which say by how much")

    def slowness_of(self, rank: int) -> float:
        """How many times as long the steps of a worker take."""
        return self.worker_factors[rank] if rank < len(self.worker_factors) else 1.0

    def layer_times(
        self, multiply_adds: Sequence[tuple[str, int]], batch: int
    ) -> tuple[LayerTime, ...]:
        """Give each layer's time for a step of `batch` rows.

        `multiply_adds` are the model's layers, by name, in the order they are computed.
        """
        times = self.layers or _spread(multiply_adds, self.batch / (self.rows_per_s or 1.0))
        scale = batch / self.batch
        return tuple(
            LayerTime(
                layer=each.layer,
                forward_s=scale * each.forward_s,
                backward_s=scale * each.backward_s,
            )
            for each in times
        )


@final
class DeviceRates(Description):
    """What one file says."""

    device: str
    source: str = ""
    workloads: dict[str, Any]

    @property
    def name(self) -> str:
        return "device"

    def of(self, workload: str, where: str) -> Rates:
        """Give the rates of a workload; `where` is the device as it was asked for."""
        if workload not in self.workloads:
            reason = f"it has no rates for {workload}; `paceline calibrate` measures them"
            raise SpecError([Problem("device", where, reason, tuple(self.workloads))])
        table = dict(self.workloads[workload])
        prefix = f"{where}: workloads.{workload}"
        layers = table.get("layers", [])
        if isinstance(layers, list):
            table["layers"] = tuple(_layer(each, f"{prefix}.layers") for each in layers)
        return build(Rates, table, prefix)


def _layer(table: object, where: str) -> LayerTime:
    if not isinstance(table, Mapping):
        raise SpecError([Problem(where, table, "not a table")])
    return build(LayerTime, table, where)


def is_replayed(device: str) -> bool:
    """Whether a device is one that only takes the time."""
    return device.startswith(PREFIX)


def shipped() -> tuple[str, ...]:
    """Name the devices whose rates come with the package."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(Path(f.name).stem for f in files if f.name.endswith(".toml")))


def own_file(device: str) -> Path | None:
    """Give the user's file that a device names, if it is not one of the package's."""
    name = device.removeprefix(PREFIX)
    return None if not is_replayed(device) or name in shipped() else found_at(name)


def device_rates(device: str) -> DeviceRates:
    """Read the file that a device names; raises `SpecError` where it cannot be used."""
    name = device.removeprefix(PREFIX)
    path = own_file(device) or Path(str(resources.files(__name__))) / f"{name}.toml"
    try:
        table = untrusted.read_toml(path, _MOST_BYTES, follow=True)
    except (OSError, ValueError) as error:
        reason = f"not a readable rates file: {error}"
        raise SpecError([Problem("device", device, reason, choices())]) from error
    return _checked(table, device)


def rates_in(text: str, where: str) -> DeviceRates:
    """Read what a node has measured, in TOML; `where` is how problems call it."""
    try:
        table = untrusted.parsed_toml(text)
    except ValueError as error:
        raise SpecError([Problem(where, text[:_MOST_SHOWN], f"no rates: {error}")]) from error
    return _checked(table, where)


def _checked(table: Mapping[str, Any], where: str) -> DeviceRates:
    read = build(DeviceRates, table, where)
    odd = {key: value for key, value in read.workloads.items() if not isinstance(value, Mapping)}
    if odd:
        prefix = f"{where}: workloads"
        raise SpecError([Problem(f"{prefix}.{k}", v, "not a table") for k, v in odd.items()])
    return read


def choices() -> tuple[str, ...]:
    """Say what a device may be."""
    return (REAL, *(f"{PREFIX}{each}" for each in shipped()), f"{PREFIX}FILE")


def _spread(multiply_adds: Sequence[tuple[str, int]], step_s: float) -> list[LayerTime]:
    """Share a step's time out by multiply-adds; where there are none at all, equally."""
    total = sum(count for _, count in multiply_adds)
    shares = [count / total if total else 1 / len(multiply_adds) for _, count in multiply_adds]
    return [
        LayerTime(
            layer=layer,
            forward_s=step_s * share * (1 - _BACKWARD_SHARE),
            backward_s=step_s * share * _BACKWARD_SHARE,
        )
        for (layer, _), share in zip(multiply_adds, shares, strict=True)
    ]
