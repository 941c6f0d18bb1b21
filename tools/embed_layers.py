# ruff: noqa: INP001 - a script, not a package
"""Write down the layers of the networks of `ps-vs-ring`, so that its page needs no torch.

    python tools/embed_layers.py [FILE]

Each is taken apart as it is replayed: 224 x 224 pixels, 1,000 classes. A test compares the file
that ships with what the networks are; make it again when one of them changes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from paceline.spec import RunSpec
from paceline.studies import ring_arithmetic
from paceline.studies.ring_arithmetic import DEVICE, LAYERS, NETWORKS
from paceline.workloads.anatomy import examine

HEAD = ("workload", "layer", "num_parameters", "multiply_adds")


def main(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(HEAD)
        for name in NETWORKS:
            workload = RunSpec.from_table({"workload": name, "device": DEVICE}).workload
            for layer in examine(workload).layers:
                rows.writerow((name, layer.name, layer.num_parameters, layer.multiply_adds))


if __name__ == "__main__":
    beside = Path(ring_arithmetic.__file__).with_name(LAYERS)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else beside)
