"""`paceline run`, `ls` and `show`, as a user types them."""

import json
import signal

import pytest

from tests.commands import QUICK, last_json, paceline, start
from tests.paths import EXAMPLES

KEYS = [
    "run",
    "status",
    "workload",
    "strategy",
    "cluster",
    "num_workers",
    "batch_size",
    "global_steps",
    "worker_steps",
    "samples",
    "train_s",
    "steps_per_s",
    "samples_per_s",
    "final_loss",
    "test_accuracy",
    "seconds_to_target",
    "nodes",
]
NODE_KEYS = [
    "name",
    "seats",
    "cpu_percent_mean",
    "cpu_percent_peak",
    "memory_mean_bytes",
    "memory_peak_bytes",
    "net_sent_bytes",
    "net_received_bytes",
    "packets_sent",
    "packets_received",
    "disk_read_bytes",
    "disk_written_bytes",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one finished run, and what the command printed."""
    cwd = tmp_path_factory.mktemp("cli")
    done = paceline("run", "logistic-mnist", *QUICK, "--epochs", 5, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd, done


def test_json_is_the_last_line_and_has_every_promised_key(folder):
    result = last_json(folder[1])
    assert set(KEYS) <= set(result)
    assert set(NODE_KEYS) <= set(result["nodes"][0])
    assert result["status"] == "finished"
    assert result["global_steps"] == result["worker_steps"] == 5 * 80
    assert result["samples"] == 5 * 6000
    assert result["nodes"][0]["net_sent_bytes"] is None


def test_a_person_reads_the_outcome_and_where_it_is_kept(folder):
    text = folder[1].stdout
    assert "test accuracy" in text
    assert "steps/s" in text
    assert last_json(folder[1])["run"] in text


def test_metrics_of_ones_own_are_printed_and_end_the_run(tmp_path):
    workload = f"{EXAMPLES / 'own_metrics.py'}:Line"
    options = ("--target", "mae<=0.5", "--target", "r2>=0.5", "--eval-every", 10, "--epochs", 50)
    done = paceline("run", workload, *options, "--json", cwd=tmp_path)
    result = last_json(done)
    assert result["target"] == "mae<=0.5 and r2>=0.5"
    assert result["seconds_to_target"] is not None
    assert result["test_metrics"]["mae"] <= 0.5
    assert result["global_steps"] < 50 * 31
    mae, r2 = (f"{result['test_metrics'][name]:.4f}" for name in ("mae", "r2"))
    assert f"{mae}, r2 {r2}, loss" in done.stdout
    assert f"mae {mae} · r2 {r2}" in done.stderr
    shown = paceline("show", "last", cwd=tmp_path)
    assert f"{mae}, r2 {r2}, loss" in shown.stdout
    assert ["time_s", "progress", "mae", "r2", "loss"] in map(str.split, shown.stdout.splitlines())


def test_progress_goes_to_standard_error_as_plain_lines_in_a_pipe(folder):
    assert "starting" in folder[1].stderr
    assert "\x1b" not in folder[1].stderr


def test_ls_lists_the_run(folder):
    cwd, done = folder
    listed = paceline("ls", cwd=cwd).stdout
    assert last_json(done)["run"].rpartition("-")[2] in listed
    assert "finished" in listed
    (as_json,) = json.loads(paceline("ls", "--json", cwd=cwd).stdout)
    assert as_json == last_json(done)


def test_show_finds_a_run_by_part_of_its_name_and_prints_its_spec(folder):
    cwd, done = folder
    ident = last_json(done)["run"].rpartition("-")[2]
    shown = paceline("show", ident, cwd=cwd).stdout
    assert 'name = "logistic-mnist"' in shown
    assert paceline("show", "last", cwd=cwd).stdout == shown


def test_show_says_when_there_is_no_such_run(folder):
    done = paceline("show", "nothing-like-it", cwd=folder[0])
    assert done.returncode == 2
    assert "no such run" in done.stderr


def test_a_kept_spec_can_be_run_again_with_one_thing_changed(folder, tmp_path):
    cwd, done = folder
    spec = cwd / last_json(done)["run"] / "spec.toml"
    again = paceline("run", spec, "--worker-steps", 3, "--lr", 0.5, "--json", cwd=tmp_path)
    result = last_json(again)
    assert result["worker_steps"] == 3
    assert "lr = 0.5" in (tmp_path / result["run"] / "spec.toml").read_text()


def test_another_length_takes_the_place_of_the_kept_one(folder, tmp_path):
    cwd, done = folder
    spec = cwd / last_json(done)["run"] / "spec.toml"
    again = paceline("run", spec, "--set", "steps=3", "--json", cwd=tmp_path)
    assert last_json(again)["global_steps"] == 3


def test_version():
    from importlib.metadata import version

    assert paceline("--version", cwd=".").stdout == f"paceline {version('paceline')}\n"


WRONG = {
    "unknown workload": (["run", "logistic-mnst"], ["workload = 'logistic-mnst'", "lenet-mnist"]),
    "unknown strategy": (["run", "synthetic", "--strategy", "rnig"], ["'rnig'", "solo"]),
    "unknown field": (
        ["run", "synthetic", "--set", "workload.byte=3"],
        ["workload.byte", "layers"],
    ),
    "unknown top field": (["run", "synthetic", "--set", "bach=3"], ["bach = 3", "batch"]),
    "batch 0": (["run", "synthetic", "--batch", "0"], ["batch = '0'", "all"]),
    "a word for a number": (["run", "synthetic", "--batch", "some"], ["batch = 'some'"]),
    "no such choice": (
        ["run", "synthetic", "--set", "record.loss=x"],
        ["record.loss", "rows, all"],
    ),
    "unknown schedule": (
        ["run", "synthetic", "--set", "optimizer.schedule=cosin"],
        ["optimizer.schedule = 'cosin'", "constant, step, cosine"],
    ),
    "a part's name, then a wrong field of it": (
        ["run", "synthetic", "--set", "optimizer.schedule=cosine", "optimizer.schedule.end=9"],
        ["optimizer.schedule.end = 9", "end_step"],
    ),
    "more workers than rows": (
        ["run", "synthetic", "--strategy", "solo", "--workers", "50", "--set", "workload.rows=20"],
        ["num_workers = 50", "20 rows"],
    ),
    "batch times workers over the rows": (
        [
            *["run", "synthetic", "--strategy", "solo"],
            *["--workers", "2", "--batch", "15"],
            *["--set", "workload.rows=20"],
        ],
        ["batch = 15", "20 rows"],
    ),
    "two lengths": (["run", "synthetic", "--steps", "3", "--epochs", "2"], ["epochs = 2", "steps"]),
    "global steps without any": (
        ["run", "synthetic", "--strategy", "solo", "--workers", "2", "--steps", "3"],
        ["steps = 3", "worker_steps"],
    ),
    "single with two": (["run", "synthetic", "--workers", "2"], ["num_workers = 2", "ps-ssp"]),
    "no file": (["run", "nowhere.py:Mine"], ["nowhere.py:Mine", "there is no file"]),
    "not an assignment": (["run", "synthetic", "--set", "batch"], ["--set = 'batch'"]),
    "full set missing": (
        ["run", "logistic-mnist", "--data-dir", "nowhere", "--set", "workload.subset=full"],
        ["paceline data get mnist"],
    ),
    "one value for all and one for some": (
        ["run", "synthetic", "--set", "cluster.cpus=0.5", "cluster.cpus.node2=0.25"],
        ["cluster.cpus.node2 = 0.25: cpus = 0.5 is given too"],
    ),
    "one value for some and one for all": (
        ["run", "synthetic", "--set", "cluster.cpus.node2=0.25", "cluster.cpus=0.5"],
        ["cluster.cpus = 0.5: node2 of it are given too"],
    ),
    "no spec file": (["run", "nothing.toml"], ["nothing.toml"]),
    "unwritable out folder": (["run", "synthetic", "--out", "/proc/nowhere"], ["/proc/nowhere"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_and_nothing_is_started_or_left(name, tmp_path):
    arguments, words = WRONG[name]
    done = paceline(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_everything_wrong_is_said_at_once(tmp_path):
    done = paceline(
        "run", "synthetic", "--batch", 0, "--set", "workload.layers=-1", "--set", "oops=1",
        "--set", "optimizer.momentum=2", cwd=tmp_path,
    )  # fmt: skip
    for field in ("batch", "workload.layers", "oops", "optimizer.momentum"):
        assert f"  {field} = " in done.stderr


def test_a_corrupt_data_file_is_named(tmp_path):
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"{name}-ubyte").write_bytes(b"not what it should be")
    done = paceline("run", "logistic-mnist", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "train-images-idx3-ubyte" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_corrupt_data_file_of_the_right_size_is_named_before_anything_starts(tmp_path):
    from paceline.workloads.data.catalogue import MNIST

    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for file in MNIST.files:
        (folder / file.name).write_bytes(bytes(file.size_bytes))
    done = paceline("run", "logistic-mnist", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "train-images-idx3-ubyte" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_settings_may_follow_each_other(tmp_path):
    done = paceline(
        "run", "synthetic", "--steps", 1, "--json", "--set", "workload.bytes=64KB",
        "workload.layers=2", "optimizer.schedule=cosine", "optimizer.schedule.end_step=9",
        cwd=tmp_path,
    )  # fmt: skip
    spec = (tmp_path / last_json(done)["run"] / "spec.toml").read_text()
    assert "bytes = 64000\nlayers = 2" in spec
    assert 'name = "cosine"\nwarmup_steps = 0\nend_step = 9' in spec
    assert paceline("run", "synthetic", "oops", cwd=tmp_path).returncode == 2


def test_a_loss_that_raises_is_answered_with_seat_error_and_log(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from paceline import Tensors, Workload\n"
        "class Mine(Workload):\n"
        "    def model(self): return torch.nn.Linear(2, 2)\n"
        "    def data(self, split, dtype):\n"
        "        return Tensors(torch.randn(100, 2), torch.zeros(100).long())\n"
        "    def loss(self, model, batch):\n"
        "        print('about to fail')\n"
        "        raise ValueError('no loss today')\n"
    )
    done = paceline(
        "run", "mine.py:Mine", "--strategy", "solo", "--workers", 2, "--batch", 10, "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "failed: ValueError: no loss today" in done.stderr
    assert "about to fail" in done.stderr
    assert last_json(done)["status"] == "failed"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_being_stopped_keeps_what_was_trained(how, tmp_path):
    command = start(
        "run", "logistic-mnist", *QUICK, "--seconds", 60, "--json", cwd=tmp_path, bufsize=1
    )
    _await_line(command, "training")
    command.send_signal(how)
    out, _ = command.communicate(timeout=300)
    result = json.loads(out.splitlines()[-1])
    assert command.returncode == 130
    assert result["status"] == "interrupted"
    assert (tmp_path / result["run"] / "model.safetensors").exists()


def test_being_stopped_waits_for_a_long_step(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time, torch\n"
        "from paceline import Tensors, Workload\n"
        "class Mine(Workload):\n"
        "    def model(self): return torch.nn.Linear(2, 2)\n"
        "    def data(self, split, dtype):\n"
        "        return Tensors(torch.randn(100, 2), torch.zeros(100).long())\n"
        "    def loss(self, model, batch):\n"
        "        time.sleep(7)\n"
        "        return model(batch[0]).square().mean()\n"
    )
    command = start("run", "mine.py:Mine", "--batch", 10, "--json", cwd=tmp_path, bufsize=1)
    _await_line(command, "training")
    command.send_signal(signal.SIGINT)
    _await_line(command, "stopping after this step")
    out, _ = command.communicate(timeout=300)
    result = json.loads(out.splitlines()[-1])
    assert result["status"] == "interrupted"
    assert result["global_steps"] in {1, 2}
    assert (tmp_path / result["run"] / "model.safetensors").exists()


def _await_line(command, text):
    for line in command.stderr:
        if text in line:
            return
    pytest.fail(f"it never said {text!r}")


def test_inline_needs_no_other_process(tmp_path):
    done = paceline("run", "synthetic", "--cluster", "inline", "--steps", 5, "--json", cwd=tmp_path)
    assert last_json(done)["global_steps"] == 5
