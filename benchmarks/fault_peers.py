"""The same kill under torchrun, Ray Train and us: for how long does nothing new come?

    python benchmarks/fault_peers.py --repetitions 3 --ray-train .venv-ray-train/bin/python

LeNet on the embedded tenth of MNIST, two workers, batch 64 each. torchrun runs a plain DDP script
(peers/torchrun_lenet.py) with a checkpoint per epoch and `--max-restarts 3`, and with a store of
their own for workers that are started again, without which they often do not meet; Ray Train runs
the same training (peers/ray_train_lenet.py) with its FailureConfig, where a Python that has it is
given; we run `ring`, `ps-async`, and `ddp` with `--on-failure restart` and a checkpoint per epoch
too. After the same time of training the second worker is killed (SIGKILL). Seconds lost are those
until the first step that had not been made before. Contenders take turns. Prints seconds, and ours
over theirs in each repetition: below 1 we lose less.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from bounded import DidNotRun, end_children
from trials import Trials, spread, table, take_turns

import paceline
from paceline.spec import RunSpec
from paceline.system import linux

SCRIPTS: Final = Path(__file__).resolve().parent / "peers"
BATCH: Final = 64
WORKERS: Final = 2
LR: Final = 0.05
TORCHRUN: Final = "torchrun"
RAY_TRAIN: Final = "Ray Train"
OURS: Final = {
    "ddp, restarted": {"strategy": "ddp", "on_failure": "restart"},
    "ring": {"strategy": "ring", "on_failure": "go-on"},
    "ps-async": {"strategy": "ps-async", "on_failure": "go-on"},
}
DEADLINE_S: Final = 120.0
# Else workers that torchrun starts again share the store of those before, may read their addresses
# in it, and call who is dead: often until no restart is left (issue 135712 of pytorch/pytorch).
_OWN_STORE: Final = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
Steps = list[tuple[float, int]]


def spec_of(name: str, at_s: float) -> RunSpec:
    """Say what we run: a worker is killed in the middle, and as long again is left to recover."""
    spec = RunSpec.from_table(
        {
            "workload": {"name": "lenet-mnist", "subset": "tenth"},
            "num_workers": WORKERS,
            "batch": BATCH,
            "optimizer": {"name": "sgd", "lr": LR, "momentum": 0.0},
            "threads": 1,
            "seconds": at_s + 20.0,
            "fault": f"kill:worker1@{at_s:g}s",
            "record": {"tensorboard": False, "model": False, "interval_s": 0.02},
            **OURS[name],
        }
    )
    if spec.when_lost != "restart":
        return spec
    per_epoch = spec.check_data().steps_per_epoch
    return RunSpec.from_table({**spec.values(), "checkpoint_every": per_epoch})


def ours(name: str, at_s: float, zygote: paceline.Zygote) -> float:
    """Seconds until the first new update after the kill; raises `DidNotRun`."""
    with tempfile.TemporaryDirectory() as out:
        try:
            result = paceline.run(spec_of(name, at_s), out=out, zygote=zygote)
        except paceline.RunError as error:
            raise DidNotRun(str(error)) from error
    (noted,) = result.disturbances
    if noted.update_s is None:
        raise DidNotRun("no new update came before the run was over")
    return noted.update_s


def torchrun(at_s: float) -> float:
    """The same of a plain script under torchrun; raises `DidNotRun`."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    script = ["--max-restarts", "3", str(SCRIPTS / "torchrun_lenet.py")]

    def command(folder: Path) -> list[str]:
        return [sys.executable, *launcher, *script, "--checkpoint", str(folder / "last.pt")]

    return _peer(command, _OWN_STORE, at_s)


def ray_train(python: Path, at_s: float) -> float:
    """The same under Ray Train, on a Ray of its own; raises `DidNotRun`."""
    token = secrets.token_hex(32)
    environment = {
        "PYTHONPATH": str(SCRIPTS.parent),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return _peer(lambda _: [str(python), str(SCRIPTS / "ray_train_lenet.py")], environment, at_s)


def _peer(command: Callable[[Path], list[str]], variables: Mapping[str, str], at_s: float) -> float:
    linux.adopt_orphans()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _write_data(folder / "data.pt")
        with (folder / "errors.log").open("w") as errors:
            process = subprocess.Popen(
                [*command(folder), *_options(folder)],
                env={**os.environ, **variables},
                stdout=errors,
                stderr=errors,
            )
            try:
                return _lost_s(folder, at_s, process)
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                end_children()


def _write_data(path: Path) -> None:
    import torch

    spec = spec_of("ring", 1.0)
    rows = spec.workload.data("train", torch.float32)
    images, labels = rows.take(torch.arange(len(rows)))
    torch.save({"images": images, "labels": labels}, path)


def _options(folder: Path) -> list[str]:
    options = {
        "--made": folder / "steps.txt",
        "--data": folder / "data.pt",
        "--batch": BATCH,
        "--lr": LR,
    }
    return [str(word) for pair in options.items() for word in pair]


def _lost_s(folder: Path, at_s: float, process: subprocess.Popen[bytes]) -> float:
    log = folder / "steps.txt"
    began_s = _await(lambda: _first_new(_steps(log)), folder, process)
    time.sleep(max(0.0, began_s + at_s - time.monotonic()))
    pid = int((folder / "rank1.pid").read_text())
    killed_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return _await(lambda: _made_up_for(_steps(log)), folder, process) - killed_s


def _await(
    moment_of: Callable[[], float | None], folder: Path, process: subprocess.Popen[bytes]
) -> float:
    """Wait until the log has a moment."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        if (moment_s := moment_of()) is not None:
            return moment_s
        if process.poll() is not None:
            said = " ".join((folder / "errors.log").read_text().split())
            raise DidNotRun(f"it ended: {said[-200:]}")
        time.sleep(0.02)
    raise DidNotRun(f"no such step within {DEADLINE_S:.0f} s")


def _first_new(steps: Steps) -> float | None:
    """When the first step was made; the line before it says where the script began."""
    return steps[1][0] if len(steps) > 1 else None


def _made_up_for(steps: Steps) -> float | None:
    """When the first step was made that was not there before the script began again.

    It begins again with a line of the step that its checkpoint is of: no later than the last.
    """
    again = next((n for n, (one, two) in enumerate(pairwise(steps), 1) if two[1] <= one[1]), None)
    if again is None:
        return None
    return next((moment_s for moment_s, step in steps[again:] if step > steps[again - 1][1]), None)


def _steps(log: Path) -> Steps:
    """Each step that is written whole: when it was made, and which it was."""
    if not log.exists():
        return []
    whole = log.read_text().rpartition("\n")[0]
    pairs = (line.split() for line in whole.splitlines())
    return [(float(moment_s), int(step)) for moment_s, step in pairs]


def main() -> None:
    """Measure by turns, and print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--at", type=float, default=5.0, help="seconds of training before the kill")
    parser.add_argument("--ray-train", type=Path, help="a Python that has it")
    parser.add_argument("--only", default="", help="contenders, with commas")
    options = parser.parse_args()
    with paceline.Zygote() as zygote:
        ways = {name: partial(ours, name, options.at, zygote) for name in OURS}
        ways[TORCHRUN] = partial(torchrun, options.at)
        if options.ray_train is not None:
            ways[RAY_TRAIN] = partial(ray_train, options.ray_train.absolute(), options.at)
        trials = take_turns(
            options.only.split(",") if options.only else [*ways],
            lambda name: ways[name](),
            options.repetitions,
            _say,
            "{:.2f} s".format,
        )
    print(_tables(trials))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tables(trials: Trials) -> str:
    seconds = {name: trials.measured(name) for name in trials.rates}
    rows = [
        (name, f"{spread(each, 2)} s" if each else f"did not run: {trials.reasons[name]}")
        for name, each in seconds.items()
    ]
    return "\n\n".join([table(("contender", "seconds lost"), rows), *_ratios(trials)])


def _ratios(trials: Trials) -> Iterator[str]:
    for peer in (TORCHRUN, RAY_TRAIN):
        found = [(n, trials.ratio(n, peer)) for n in OURS if {n, peer} <= trials.rates.keys()]
        told = [(name, spread(each.each, 3)) for name, each in found if each is not None]
        if told:
            yield table(("ours", f"seconds lost over those of {peer}"), told)


if __name__ == "__main__":
    main()
