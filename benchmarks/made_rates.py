"""A replayed device that takes as long as a benchmark wants: rates for `synthetic`, made up."""

from __future__ import annotations

from pathlib import Path

NUM_LAYERS = 4
NO_TIME_S = NUM_LAYERS * 1e-6
LAYER = '{{ layer = "layers.{}", forward_s = {}, backward_s = {} }}'
RATES = """device = "made-up"
source = "made up for a benchmark"

[workloads.synthetic]
batch = 8
layers = [{layers}]
update_s = 1e-6
num_rows = 10000

[workloads.synthetic.fields]
bytes = {num_bytes}
"""


def made_rates(
    folder: Path, num_bytes: int, *, forward_s: float = NO_TIME_S, backward_s: float = NO_TIME_S
) -> str:
    """Write rates of a model of that size, its layers alike; gives the `device` that has them.

    Unless given, a layer takes a microsecond each way: a step is then its exchange.
    """
    each = (forward_s / NUM_LAYERS, backward_s / NUM_LAYERS)
    layers = ", ".join(LAYER.format(index, *each) for index in range(NUM_LAYERS))
    path = folder / f"made-up-{num_bytes}.toml"
    path.write_text(RATES.format(layers=layers, num_bytes=num_bytes))
    return f"replay:{path}"
