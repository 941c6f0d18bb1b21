"""Does as much travel as theory says, to the byte?

    python benchmarks/traffic.py --quick
    python benchmarks/traffic.py --bytes 233MB --steps 3

For `ps-sync` with 2, 4 and 6 workers, the server on a node of its own, beside worker 0, and one
beside every worker, and for `ring`: what the kernel counted at both ends of every node's link while
training, less 66 bytes a packet, over the closed form. A server's node sends and receives workers
times the model a step, one less where it has a worker; a node of a ring or of spread servers
2 (N - 1) / N of it. Ends with code 1 if one is off by more than 0.5 %. The gradients are those of
the workload `synthetic`, or with --replay those of `alexnet-cifar10` (244 MB) as a K80 would have
made them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.005
COMMAND = [sys.executable, "-m", "paceline", "run"]
REPLAYED = ["alexnet-cifar10", "--device", "replay:k80"]


@dataclass(frozen=True)
class Case:
    """One run: which strategy, how many workers, and what is set beside."""

    strategy: str
    workers: int
    settings: tuple[str, ...] = ()
    how: str = ""
    """What these settings mean, in words."""

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.strategy, f"{self.workers} workers", self.how)))

    def run(self, workload: list[str], steps: int, link: str) -> dict[str, Any]:
        options = ["--strategy", self.strategy, "--workers", str(self.workers), "--link", link]
        options += ["--cluster", "emulated", "--worker-steps", str(steps), "--json"]
        settings = [word for each in self.settings for word in ("--set", each)]
        with tempfile.TemporaryDirectory(prefix="paceline-traffic-") as folder:
            done = subprocess.run(
                [*COMMAND, *workload, *options, *settings, "--out", folder],
                check=False, capture_output=True, text=True,
            )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bytes", default="233MB")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--link", default="2gbit")
    parser.add_argument("--replay", action="store_true", help="gradients of AlexNet on a K80")
    parser.add_argument("--quick", action="store_true", help="20 MB, and not 6 workers")
    arguments = parser.parse_args()
    size = "20MB" if arguments.quick else arguments.bytes
    workload = ["synthetic", "--set", f"workload.bytes={size}", "--set", "record.model=false"]
    workload += ["--batch", "1", "--eval-samples", "1"]
    if arguments.replay:
        workload = REPLAYED
    num_bad = 0
    for workers in (2, 4) if arguments.quick else (2, 4, 6):
        for case in (
            Case("ps-sync", workers, ("strategy.placement=separate",), "server apart"),
            Case("ps-sync", workers),
            Case("ps-sync", workers, ("strategy.servers=auto",), "spread"),
            Case("ring", workers),
        ):
            result = case.run(workload, arguments.steps, arguments.link)
            num_bad += not _tell(case, result, arguments.steps)
    return 1 if num_bad else 0


def _tell(case: Case, result: dict[str, Any], steps: int) -> bool:
    laws = result["traffic"]["nodes"]
    busiest = max(laws, key=lambda law: law["expected_sent_bytes"])
    model = result["model_bytes"] * steps
    ratios = [law[f"{way}_ratio"] for law in laws for way in ("sent", "received")]
    is_good = all(abs(each - 1) <= TOLERANCE for each in ratios)
    sent, received = busiest["sent_bytes"] / model, busiest["received_bytes"] / model
    print(
        f"{case.title:>32}: {busiest['node']} sent {sent:.4f} and received {received:.4f} models "
        f"a step; over theory, all nodes both ways: "
        f"{min(ratios):.5f} to {max(ratios):.5f}; {'met' if is_good else 'MISSED'}",
        flush=True,
    )
    return is_good


if __name__ == "__main__":
    sys.exit(main())
