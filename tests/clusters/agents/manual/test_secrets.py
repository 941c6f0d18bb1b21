"""A user's code in a seat finds no secret: not the run's, and no invitation of another seat."""

import hashlib
import os
import socket
import subprocess
import sys

import pytest

import paceline
from paceline.clusters.agents.manual import describe
from paceline.clusters.agents.secret import take_secret

SECRET = "fedcba9876543210" * 4
CURIOUS = """
import gc, hashlib, os, sys
import torch, paceline

DIGEST = {digest!r}


def everything():
    frame, todo = sys._getframe(), gc.get_objects()
    while frame is not None:
        todo += frame.f_locals.values()
        frame = frame.f_back
    todo += [os.environ._data]
    seen = set()
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += gc.get_referents(each)


def is_secret(each):
    if isinstance(each, (str, bytes)) and len(each) == 64:
        data = each.encode() if isinstance(each, str) else each
        return hashlib.sha256(data).hexdigest() == DIGEST
    return False


def environments():
    pid = int(os.readlink("/proc/self"))  # as /proc counts, whatever namespace this is in
    while pid > 1:
        yield open(f"/proc/{{pid}}/environ", "rb").read()
        pid = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])


class Curious(paceline.Workload):
    def model(self):
        found = [each for each in everything()]
        assert len(found) > 10_000, "it has not looked"
        assert not any(is_secret(each) for each in found), "the secret"
        invited = [each for each in found if type(each).__name__ == "Invitation"]
        assert not invited, f"invitations of {{[each.who for each in invited]}}"
        assert not [each for each in os.environ if each.startswith("PACELINE_SECRET")]
        for told in environments():
            words = told.replace(b"=", bytes(1)).split(bytes(1))
            assert not any(is_secret(each) for each in words), "in an environment"
        return torch.nn.Linear(4, 2)

    def data(self, split, dtype):
        inputs = torch.linspace(-1, 1, 256, dtype=dtype).reshape(64, 4)
        return paceline.Tensors(inputs, (inputs.sum(1) > 0).long(), origin="mine")
"""
HERE, THERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(describe, "_secrets", [SECRET])
    with socket.create_server((HERE, 0)) as free:
        return free.getsockname()[1]


def test_neither_in_frames_nor_in_memory_nor_in_the_environments_of_its_ancestors(port, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(CURIOUS.format(digest=hashlib.sha256(SECRET.encode()).hexdigest()))
    started = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "paceline", "join", f"{HERE}:{port}", "--as", name],
            env={**os.environ, "PACELINE_SECRET": SECRET},
        )
        for name in (HERE, THERE)
    ]
    hosts = {"worker": [HERE, HERE, THERE]}
    try:
        result = paceline.run(
            f"{file}:Curious",
            strategy="ring",
            cluster={"name": "manual", "hosts": hosts, "address": HERE, "port": port},
            num_workers=3,
            batch=4,
            steps=2,
            out=tmp_path / "runs",
        )
        assert result.global_steps == 2
        assert [each.wait(60) for each in started] == [0, 0]
    finally:
        for each in started:
            each.kill()
            each.wait()


def test_what_was_taken_is_wiped_where_the_process_was_given_it():
    script = (
        "import os, sys; from paceline.clusters.agents.secret import take_secret; "
        "assert take_secret(os.environ, 'x') == sys.argv[1]; "
        "print(open('/proc/self/environ').read())"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, SECRET],
        env={**os.environ, "PACELINE_SECRET": SECRET},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "PACELINE_SECRET=xxx" in told
    assert SECRET not in told


def test_neither_the_secret_nor_its_file_is_left_in_the_environment(tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    environ = {"PACELINE_SECRET_FILE": str(file), "HOME": "here"}
    assert take_secret(environ, "x") == SECRET
    assert environ == {"HOME": "here"}
