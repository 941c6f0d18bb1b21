"""Encrypted messages: the same is learnt, keys are written nowhere, and nothing pretends."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

import paceline
from paceline.clusters.base import Berth, Crew, Job
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.comm.words import Answered, Start
from paceline.errors import Aborted, SpecError
from paceline.strategies.all_reduce.describe import Ddp
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing import Moons
from paceline.testing.clusters import introduce
from paceline.testing.strategies import assert_parameters_close

QUIET = paceline.Record(tensorboard=False, monitor=False)


def spec_of(cluster, strategy=PsSync(servers=2, chunk_bytes=100)):  # noqa: B008 - it is frozen
    return paceline.RunSpec(
        workload=Moons(),
        strategy=strategy,
        cluster=cluster,
        num_workers=2,
        worker_steps=20,
        record=QUIET,
    )


def test_an_encrypted_run_learns_what_a_plain_one_learns(tmp_path):
    plain = paceline.run(spec_of(Inline()), out=tmp_path)
    encrypted = paceline.run(spec_of(Local(transport="zmq-tcp", encrypt=True)), out=tmp_path)
    assert_parameters_close(encrypted, plain, tolerance=0.0)
    assert encrypted.warnings == ()
    assert [(each.dropped_frames, each.rejected_peers) for each in encrypted.servers] == [
        (0, 0)
    ] * 2


def test_what_is_not_encrypted_is_told(tmp_path):
    result = paceline.run(spec_of(Local(transport="zmq", encrypt=True), Ddp()), out=tmp_path)
    assert result.warnings == ("ddp opens its own connections, which are not encrypted",)


def test_shared_memory_cannot_be_encrypted():
    reason = r"cluster\.transport = 'shared': .*no messages to encrypt \(choices: zmq, zmq-tcp\)"
    with pytest.raises(SpecError, match=reason):
        spec_of(Local(encrypt=True)).checked()


def show_key(berth: Berth) -> int:
    """What the seats of the next test do."""
    channel = berth.open_channel()
    try:
        if berth.seat.role == "worker":
            channel.send("server0", torch.ones(1))
        else:
            channel.receive()
        keys = channel._connections._credentials
        berth.line.send(Answered(keys.secret.decode()))
        berth.line.wait(Start)  # which nobody says
    except Aborted:
        return 0
    finally:
        channel.close()
    return 1


@pytest.fixture
def crew(tmp_path) -> Iterator[Crew]:
    """A worker and a server that have told their secret keys to the test, and wait."""
    cluster = Local(transport="zmq", encrypt=True)
    (tmp_path / "logs").mkdir()
    job = Job(
        run_dir=tmp_path,
        run_key=bytes(16),
        entry=f"{__name__}:show_key",
        seats=[seat for seat in cluster.seats(1, 1) if seat.role != "monitor"],
        threads=1,
    )
    started = cluster.start(job)
    introduce(started, job.seats)
    yield started
    started.end()


def test_secret_keys_are_in_no_file_no_argument_and_no_variable(crew, tmp_path):
    keys = [line.receive(60).value.encode() for line in crew.lines.values()]
    assert len(set(keys)) == 2
    assert crew.departures() == []  # and by this it has heard who its keeper is
    for text in [*files_below(tmp_path), *told_to_processes(crew._keeper.pid)]:
        assert not any(key in text for key in keys)


def test_a_secret_key_is_in_the_memory_of_its_own_seat_only(crew):
    told = {name: line.receive(60) for name, line in crew.lines.items()}
    assert crew.departures() == []
    processes = descendants(crew._keeper.pid)
    holders = {
        name: [pid for pid in processes if is_in_memory(pid, word.value.encode())]
        for name, word in told.items()
    }
    assert [len(pids) for pids in holders.values()] == [1, 1]
    assert holders["worker0"] != holders["server0"]


def descendants(pid: int) -> list[int]:
    return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]


def is_in_memory(pid: int, text: bytes) -> bool:
    """Whether a process has a text anywhere in memory that it can write to."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent, rights, *rest = line.split()
            if not rights.startswith("rw") or rest[-1].startswith("[v"):
                continue
            start, stop = (int(each, 16) for each in extent.split("-"))
            memory.seek(start)
            with contextlib.suppress(OSError):  # a device's
                if text in memory.read(stop - start):
                    return True
    return False


def files_below(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def told_to_processes(pid: int) -> list[bytes]:
    """The arguments and the environment of a process and of all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = [Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ")]
    assert all(own)
    return own + [text for child in children for text in told_to_processes(int(child))]
