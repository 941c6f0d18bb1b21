"""Whether a change keeps results equal to the bit: parameters, losses and metrics of short runs.

    python benchmarks/bit_equal.py --before ../before
    make hashes

The first carries out the same runs in this checkout and in another one, and compares what came of
them: proof on any machine and with any torch. Each checkout has a `.venv` of its own.

The second writes hashes of them down, for `tests/test_bit_equal.py`. Arithmetic differs between
versions of torch, and between processors: so hashes have a key that says which they hold for. A key
that is there already is not written again, but with `--again`: a change of numbers is deliberate.
`--of ../before` has another checkout make them.

Exit code: 0 if all are equal, or were written down.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from before_after import Checkout

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor, nn

Digests = dict[str, str]
"""What a run came to: the hash of its parameters, of its losses, of its metrics."""

HERE = Path(__file__).parent
RECORDED = HERE.parent / "tests" / "bit_equal.json"

LOGISTIC = {"workload": {"name": "logistic-mnist", "subset": "tenth"}, "batch": 20}
LENET = {"workload": {"name": "lenet-mnist", "subset": "tenth"}, "batch": 8}
SMALL = {"workload": str(HERE / "drawn_and_counted.py") + ":SmallCnn", "batch": 10}
SPARSE = {"workload": {"name": "synthetic", "features": 500, "nonzeros": 9, "rows": 900}}
MESSAGES = {"cluster": {"name": "local", "transport": "zmq"}}
ADAM = {"optimizer": {"name": "adam", "lr": 0.002}}
ADAGRAD = {"optimizer": {"name": "adagrad", "lr": 0.05}}
EASED = {
    "optimizer": {
        "name": "sgd",
        "lr": 0.02,
        "momentum": 0.9,
        "weight_decay": 0.001,
        "schedule": {"name": "cosine", "warmup_steps": 5, "end_step": 40},
    }
}
TWO_SERVERS = {"name": "ps-sync", "servers": 2, "chunk_bytes": 4096}
ALWAYS = {
    "threads": 1,
    "seed": 5,
    "worker_steps": 24,
    "eval_samples": 200,
    "record": {"loss": "all", "tensorboard": False, "monitor": False},
}


def _of(strategy: str | dict[str, Any], num_workers: int, **fields: Any) -> dict[str, Any]:
    return {**ALWAYS, "strategy": strategy, "num_workers": num_workers, **fields}


CASES: dict[str, dict[str, Any]] = {
    "single, logistic": _of("single", 1, **LOGISTIC, eval_every=10),
    "single, logistic, float64, scheduled": _of("single", 1, **LOGISTIC, **EASED, dtype="float64"),
    "single, lenet": _of("single", 1, **LENET),
    "single, small cnn, adam": _of("single", 1, **SMALL, **ADAM, eval_every=10),
    "single, sparse": _of("single", 1, **SPARSE, **ADAGRAD),
    "solo, small cnn, 2 workers": _of("solo", 2, **SMALL, **EASED),
    "ring, logistic, 2 workers": _of("ring", 2, **LOGISTIC, eval_every=10),
    "ring, small cnn, adam, 3 workers": _of("ring", 3, **SMALL, **ADAM),
    "ring, lenet, 3 workers, messages": _of("ring", 3, **LENET, **MESSAGES),
    "ring, sparse, 2 workers, messages": _of("ring", 2, **SPARSE, **ADAGRAD, **MESSAGES),
    "ps-async, lenet, 1 worker": _of("ps-async", 1, **LENET, **ADAM),
    "ps-sync, logistic, 1 worker": _of("ps-sync", 1, **LOGISTIC),
    "ps-sync, logistic, 3 workers": _of("ps-sync", 3, **LOGISTIC, **EASED, eval_every=10),
    "ps-sync, lenet, 2 workers, 2 servers": _of(TWO_SERVERS, 2, **LENET),
    "ps-sync, small cnn, adam, 2 workers, messages": _of("ps-sync", 2, **SMALL, **ADAM, **MESSAGES),
    "ps-sync, lenet, 3 workers, 2 servers, messages": _of(TWO_SERVERS, 3, **LENET, **MESSAGES),
    "ps-sync, sparse, 2 workers": _of("ps-sync", 2, **SPARSE, **ADAGRAD),
    "ps-sync, sparse, 3 workers, 2 servers, messages": _of(TWO_SERVERS, 3, **SPARSE, **MESSAGES),
}


# --- what a run came to -------------------------------------------------------------------------


def digests(run: Path) -> Digests:
    """Hash what a run's folder keeps of parameters, losses and metrics, to the last bit."""
    from safetensors.numpy import load_file

    return {
        "parameters": hashed(load_file(run / "model.safetensors")),
        "losses": hashed(dict(_losses(run))),
        "metrics": hashed(dict(_metrics(run))),
    }


def _losses(run: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Give the losses of each worker's mini-batches."""
    import polars

    frame = polars.read_parquet(run / "losses.parquet")
    for (seat,), part in frame.sort("seat", "worker_step").group_by("seat"):
        yield str(seat), part["loss"].to_numpy()


def _metrics(run: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Give each evaluation's metrics; not when it was."""
    import polars

    frame = polars.read_parquet(run / "evaluations.parquet")
    for name in frame.columns:
        if not name.endswith("_s"):
            yield name, frame[name].to_numpy()


def hashed(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Hash arrays by name: types, shapes and every bit."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype.str} {array.shape};".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]


# --- where it holds -----------------------------------------------------------------------------


@cache
def key() -> str:
    """Say for which torch and which processor hashes made here hold.

    Its libraries choose their arithmetic by more than torch tells: by the maker of the processor,
    say. So a little training by torch alone is part of the key: where it differs, so may all.
    """
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    machine = f"{platform.machine()} {capability}"
    return f"torch {torch.__version__}, {machine}, arithmetic {_arithmetic()}"


def _arithmetic() -> str:
    """Hash what torch alone, without us, makes of the models here in a few steps."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            return hashed(dict(_trained_alone()))[:8]
    finally:
        torch.set_num_threads(before)


def _trained_alone() -> Iterator[tuple[str, npt.NDArray[Any]]]:
    import torch
    from drawn_and_counted import SmallCnn

    from paceline.workloads.mnist import LenetMnist, LogisticMnist

    logistic, lenet = LogisticMnist(subset="tenth"), LenetMnist(subset="tenth")
    for workload, batch in ((logistic, 20), (lenet, 8), (SmallCnn(), 10)):
        for dtype in (torch.float32, torch.float64):
            torch.manual_seed(5)
            model = workload.model().to(dtype)
            rows = workload.data("train", dtype).take(torch.arange(batch))
            optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
            for _ in range(3):
                _step(model, optimizer, rows)
            for name, value in model.state_dict().items():
                yield f"{type(workload).__name__} {dtype} {name}", value.numpy()


def _step(model: nn.Module, optimizer: Any, rows: Any) -> None:
    from torch.nn import functional

    inputs, classes = rows
    optimizer.zero_grad()
    loss: Tensor = functional.cross_entropy(model(inputs), classes)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


# --- the child's part: runs of one checkout -----------------------------------------------------


def serve() -> None:
    """Carry out the runs that standard input names, one JSON object a line, and tell of each."""
    import paceline

    with paceline.Zygote() as zygote:
        for line in sys.stdin:
            spec = paceline.RunSpec.from_table(json.loads(line))
            with tempfile.TemporaryDirectory() as out:
                result = paceline.run(spec, out=out, zygote=zygote)
                told = {"key": key(), "digests": digests(Path(result.run))}
            print(json.dumps(told), flush=True)


# --- the parent's part --------------------------------------------------------------------------


def made_by(folder: Path) -> tuple[str, dict[str, Digests]]:
    """Have a checkout carry out all runs; the key of their hashes, and the hashes."""
    side = Checkout(str(folder / ".venv/bin/python"), script=__file__)
    told = {name: side.run(case) for name, case in CASES.items()}
    side.end()
    found = {name: each["digests"] for name, each in told.items()}
    return next(iter(told.values()))["key"], found


def differences(before: Digests, after: Digests) -> str:
    """Name what differs between two runs; nothing if they are equal."""
    return ", ".join(name for name in before if before[name] != after.get(name))


def compare(before: Path) -> int:
    """Compare this checkout's runs with another one's; 1 if any differs."""
    (old_key, old), (new_key, new) = made_by(before), made_by(HERE.parent)
    if old_key != new_key:
        print(f"cannot be compared: {before} has {old_key}; this checkout has {new_key}")
        return 1
    print(new_key)
    for name in CASES:
        print(f"{name}: {differences(old[name], new[name]) or 'equal'}")
    unequal = [name for name in CASES if old[name] != new[name]]
    print(f"{len(CASES) - len(unequal)} of {len(CASES)} runs are equal to the bit")
    return 1 if unequal else 0


def record(found_key: str, found: dict[str, Digests], path: Path, *, again: bool) -> int:
    """Write hashes down by their key; 1 if there are others already, which then stay."""
    recorded = json.loads(path.read_text()) if path.exists() else {}
    if recorded.get(found_key) == found:
        print(f"{path.name} has the same hashes for {found_key} already")
        return 0
    if found_key in recorded and not again:
        print(f"{path.name} has OTHER hashes for {found_key}; they stay: --again replaces them")
        return 1
    recorded[found_key] = found
    path.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    print(f"{path.name}: hashes of {len(found)} runs for {found_key}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--before", type=Path, help="the checkout to compare with")
    what.add_argument("--record", action="store_true", help="write hashes down for the test")
    parser.add_argument("--of", type=Path, default=HERE.parent, help="which checkout makes them")
    parser.add_argument("--again", action="store_true", help="replace those of the same key")
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    if arguments.record:
        return record(*made_by(arguments.of), RECORDED, again=arguments.again)
    if arguments.before is None:
        parser.error("--before: which checkout is to be compared with?")
    return compare(arguments.before)


if __name__ == "__main__":
    sys.exit(main())
