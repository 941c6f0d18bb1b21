"""What a worker has counted, when it has done its part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.engine.serving import naming_what_was_counted
from paceline.measure.clock import virtual
from paceline.measure.process_usage import peak_bytes
from paceline.outcome.accounts import WorkerAccount, account_of

if TYPE_CHECKING:
    from paceline.engine.worker import Worker
    from paceline.training.replica import Replica


def account_of_worker(worker: Worker) -> WorkerAccount:
    """Sum up a worker's steps, what they took, and what its parts have counted."""
    with naming_what_was_counted():
        return account_of(WorkerAccount, _totals(worker))


def _totals(worker: Worker) -> dict[str, Any]:
    return {
        "train_s": worker.clock.now_s(),
        "worker_steps": worker.session.num_steps,
        "samples": worker.session.num_samples,
        "global_steps": worker.member.global_steps,
        "final_loss": worker.recorder.final_loss(),
        "model_bytes": worker.replica.num_bytes,
        "touched_rows": worker.feed.touched_rows,
        "row_bytes": worker.replica.row_bytes,
        "memory_peak_bytes": peak_bytes(),
        "parameter_bytes": _parameter_bytes(worker.replica),
        "odd_losses": worker.recorder.num_odd,
        **virtual(_counted(worker), worker.spec.dilation),
        **worker.train_data.counted(),
        **worker.place.refusals.table(),
        **worker.place.counted(),
    }


def _parameter_bytes(replica: Replica) -> int | None:
    """How much there is to exchange in a step; of a table it depends on the batch."""
    return replica.parameters.nbytes if replica.table is None else None


def _counted(worker: Worker) -> dict[str, Any]:
    return {**worker.usage.table(), **worker.member.counted(), **worker.compute.counted()}
