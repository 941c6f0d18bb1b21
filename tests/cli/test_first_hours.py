"""The first hour of three people, typed into a terminal of 80 columns.

One follows the README, one brings a model, and one makes every mistake there is. A fourth, who has
a busy machine, is in `test_busy_machine.py`.
"""

import re
import shlex

import pytest

from paceline.clusters.emulated.network import try_out
from paceline.system.attempts import attempt
from tests.paths import ROOT
from tests.terminal import Transcript, typed, typed_in_turn

OWN = '''
import torch
from torch import nn
from paceline import Tensors, Workload

class Mine(Workload):
    """A line through points: what is learnt is the sum of two numbers."""

    default_batch = 20
    broken: str = "no"

    def model(self):
        return nn.Linear(2, 1)

    def data(self, split, dtype):
        generator = torch.Generator().manual_seed(len(split))
        rows = torch.randn(200, 2, generator=generator, dtype=dtype)
        if self.broken == "data":
            rows = {}[self.broken]
        if self.broken == "tuple":
            return rows, rows.sum(dim=1, keepdim=True)
        return Tensors(rows, rows.sum(dim=1, keepdim=True), origin="generated")

    def loss(self, model, batch):
        rows, sums = batch
        loss = (model(rows) - sums).square().mean()
        if self.broken == "float":
            return loss.item()
        return loss * float("nan") if self.broken == "loss" else loss

    def metrics(self, model, batch):
        rows, sums = batch
        return {"mae": (model(rows) - sums).abs().mean()}
'''
INVALID = "Invalid settings; nothing was started: "
STRATEGIES = "single, solo, ring, ddp, ps-async, ps-sync, ps-ssp, own"
# What is typed, and all that is answered.
REFUSED = {
    "run logistic-mnist --workers 0 --batch x --lr -1": INVALID
    + "optimizer.lr = -1.0: input should be greater than 0 "
    "num_workers = 0: input should be greater than or equal to 1 "
    "batch = 'x': input should be a valid integer, unable to parse string as an integer, or not "
    "one of the choices (choices: all)",
    "run logistic-mnst": INVALID
    + "workload = 'logistic-mnst': no workload of that name, and not file.py:Class or module:Class "
    "(choices: logistic-mnist, lenet-mnist, logistic-criteo, logistic-libsvm, alexnet-cifar10, "
    "vgg16-cifar10, vgg19-cifar10, resnet50-cifar10, resnet152-cifar10, resnet20-cifar10, "
    "imagefolder, synthetic)",
    "run synthetic --strategy rnig": INVALID
    + "strategy = 'rnig': no strategy of that name, and not file.py:Class or module:Class "
    f"(choices: {STRATEGIES})",
    "run synthetic --link 1gbit": INVALID
    + "cluster.link = '1gbit': no such field of local; add --cluster emulated "
    "(choices: transport, encrypt)",
    "run synthetic --workers 2": INVALID
    + "num_workers = 2: single has one worker; for more, choose another with --strategy "
    f"(choices: {STRATEGIES.removeprefix('single, ').removesuffix(', own')})",
    "run synthetic --steps 3 --epochs 2": INVALID
    + "epochs = 2: steps is given too: give only one length "
    "(choices: steps, worker_steps, samples, epochs, seconds)",
    "run synthetic --strategy solo --workers 2 --steps 3": INVALID
    + "steps = 3: solo shares no parameters, so it has no global steps "
    "(choices: worker_steps, samples, epochs, seconds)",
    "run synthetic --set workload.byte=3": INVALID + "workload.byte = 3: no such field "
    "(choices: bytes, layers, features, nonzeros, rows, data_seed)",
    "run synthetic --set batch": INVALID + "--set = 'batch': not of the form FIELD=VALUE",
    "run nowhere.py:Mine": INVALID
    + "workload = 'nowhere.py:Mine': cannot be imported: ImportError: there is no file "
    "{cwd}/nowhere.py",
    "run logistic-mnist --data-dir nowhere --set workload.subset=full": (
        "nowhere/mnist/train-images-idx3-ubyte: missing; to get it: paceline data get mnist"
    ),
    "run mine.py:Mine --set workload.broken=data": INVALID
    + "workload = '{cwd}/mine.py:Mine': its data cannot be read: KeyError: 'data'",
    "run mine.py:Mine --set workload.broken=tuple": (
        "Mine.data('train', dtype) must return a paceline.Data, such as "
        "paceline.Tensors(inputs, classes); it returned a tuple of 2 (Tensor, Tensor)"
    ),
    "run mine.py:Mine --target mea<=0.2": INVALID
    + "target = 'mea<=0.2': Mine's metrics have no such name (choices: mae)",
    "compare logistic-mnist --strategies ring,rin": INVALID
    + "strategy = 'rin': no strategy of that name, and not file.py:Class or module:Class "
    f"(choices: {STRATEGIES})",
    "show nothing": "run = 'nothing': no such run in runs; `paceline ls` lists them",
    "study mnist": INVALID + "study = 'mnist': no study of that name "
    "(choices: mnist-logistic, lenet-scaling, alexnet-scaling, criteo-sparse, ps-vs-ring, faults)",
}
# Runs that start and fail: what is typed, and a sentence of the answer.
FAILING = {
    "run mine.py:Mine --set workload.broken=float": (
        "worker0 failed: Mine.loss(model, batch) must return the batch's mean loss as a tensor "
        "with one value, computed from the model's outputs; it returned the float"
    ),
    "run mine.py:Mine --set workload.broken=loss": (
        "worker0 failed: all of its 10 steps were refused: a gradient is NaN"
    ),
    "run mine.py:Mine --set workload.broken=loss --strategy ps-async --workers 2 --steps 99": (
        "failed: 50 steps in a row were refused (most_refused = 50): a gradient is NaN"
    ),
}


def check_readable(transcript: Transcript) -> None:
    """See that nothing is cut, and that only paths and what others wrote go over the edge."""
    assert "…" not in transcript.text
    allowed = re.compile(r"^(runs|reports|page)/|^report: |^  ")
    wide = [line for line in transcript.lines if len(line) > 80 and not allowed.match(line)]
    assert wide == []


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What was answered to each mistake, and the folder it was made in."""
    cwd = tmp_path_factory.mktemp("refused")
    (cwd / "mine.py").write_text(OWN)
    told = typed_in_turn([shlex.split(each) for each in REFUSED], cwd)
    return cwd, dict(zip(REFUSED, told, strict=True))


class TestWrongOnPurpose:
    @pytest.mark.parametrize("line", REFUSED)
    def test_it_is_answered_with_what_is_wrong_and_what_could_be(self, line, refused):
        cwd, told = refused
        expected = REFUSED[line].format(cwd=cwd)
        assert told[line].words.partition(" Traceback ")[0] == expected
        assert told[line].code == 2
        check_readable(told[line])

    def test_where_data_raised_is_shown_and_nothing_of_ours(self, refused):
        cwd, told = refused
        text = told["run mine.py:Mine --set workload.broken=data"].text
        number = OWN.splitlines().index("            rows = {}[self.broken]") + 1
        assert f'File "{cwd}/mine.py", line {number}, in data' in text
        assert text.count("File ") == 1

    def test_nothing_was_started_and_nothing_is_left(self, refused):
        cwd, _ = refused
        left = {each.name for each in cwd.iterdir()} - {"__pycache__"}
        assert left == {"mine.py"}

    def test_an_option_that_is_not_there_is_told_with_one_like_it(self, tmp_path):
        told = typed("run", "synthetic", "--strateg", "ring", cwd=tmp_path)
        assert told.code == 2
        assert "No such option: --strateg" in told.words
        assert "--strategy" in told.words


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("failed")
    (cwd / "mine.py").write_text(OWN)
    told = typed_in_turn([*map(shlex.split, FAILING), ["ls"]], cwd)
    return dict(zip((*FAILING, "ls"), told, strict=True))


class TestNothingLearnt:
    @pytest.mark.parametrize("line", FAILING)
    def test_it_fails_and_says_why(self, line, failed):
        assert FAILING[line] in failed[line].words
        assert "Traceback" not in failed[line].words
        assert failed[line].code == 1
        check_readable(failed[line])

    def test_each_is_kept_as_failed(self, failed):
        assert failed["ls"].words.count("failed") == len(FAILING)


def commands_of_the_readme() -> list[str]:
    """What the README's tour has a reader type."""
    tour = (ROOT / "README.md").read_text().partition("## A tour of the command line")[2]
    blocks = re.findall(r"```sh\n(.*?)```", tour.partition("\n## ")[0], re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.join(shlex.split(each)[1:]) for each in lines if each.startswith("paceline ")]


# What takes minutes as it stands: the last of two values of an option counts.
SHORTER = {
    "compare": ["--seconds", "0.5", "--repeat", "1", "--to", "page"],
    "run lenet-mnist --strategy ring --workers 3 --seconds": ["--seconds", "6"],
    "run lenet-mnist": ["--steps", "5", "--set", "workload.subset=tenth"],
    "run resnet50-cifar10": ["--workers", "2", "--steps", "2"],
}


def shortened(line: str) -> list[str]:
    more = (value for key, value in SHORTER.items() if line.startswith(key))
    return [*shlex.split(line), *next(more, [])]


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """What a reader of the README saw; the study itself takes minutes, and has tests of its own."""
    if refused := attempt(lambda: try_out(0.0), timeout_s=60):
        pytest.skip(f"cannot create network namespaces here: {refused}")
    lines = [each for each in commands_of_the_readme() if not each.endswith(" --quick")]
    cwd = tmp_path_factory.mktemp("toured")
    (cwd / "examples").symlink_to(ROOT / "examples")
    return cwd, dict(zip(lines, typed_in_turn(list(map(shortened, lines)), cwd), strict=True))


def of(toured, start: str) -> Transcript:
    (found,) = (told for line, told in toured[1].items() if line.startswith(start))
    return found


class TestReadmeTour:
    def test_every_command_does_what_it_says(self, toured):
        for line, told in toured[1].items():
            assert told.code == 0, f"{line}\n{told.text}"
            check_readable(told)

    def test_a_killed_worker_is_named_and_comes_back(self, toured):
        told = of(toured, "run lenet-mnist --strategy ring --workers 3 --seconds")
        assert "restart:worker1@step=30+3s struck, known after" in told.words
        assert "worker1 took part again" in told.words

    def test_compare_ends_in_a_table_a_conclusion_and_a_page(self, toured):
        told = of(toured, "compare")
        for name in ("single", "ring", "ps-sync"):
            assert any(line.startswith(name) for line in told.lines)
        assert "report: page/report.html" in told.lines
        assert (toured[0] / "page" / "report.html").is_file()

    def test_one_run_is_told_explained_shown_and_listed(self, toured):
        run = of(toured, "run logistic-mnist")
        assert "logistic-mnist · ring · local" in run.words
        (path,) = (line for line in run.lines if line.startswith("runs/"))
        assert (toured[0] / path / "result.json").is_file()
        assert "A step of each worker" in of(toured, "explain last").text
        assert path in of(toured, "show last").lines
        assert 'name = "ring"' in of(toured, "show last").lines
        assert any(line.startswith(path.rpartition("-")[2]) for line in of(toured, "ls").lines)

    def test_figures_of_machines_that_are_not_there_say_so(self, toured):
        assert "replayed compute (k80), dilated 2x" in of(toured, "run resnet50").words
        assert "100 Mbit/s" in of(toured, "run lenet-mnist --strategy ps-sync").text

    def test_studies_are_listed(self, toured):
        assert "L1 to L19" in of(toured, "study ls").text


@pytest.mark.thorough
def test_every_command_of_the_readme_as_it_stands(tmp_path):
    lines = commands_of_the_readme()
    for line, told in zip(lines, typed_in_turn([*map(shlex.split, lines)], tmp_path), strict=True):
        assert told.code == 0, f"{line}\n{told.text}"
        check_readable(told)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("own")
    (cwd / "mine.py").write_text(OWN)
    lines = (
        "run mine.py:Mine --epochs 20 --lr 0.1 --eval-every 20 --target mae<=0.2",
        "show last",
        (
            "compare mine.py:Mine --strategies single,ring --workers 2 --epochs 5 --repeat 1 "
            "--cluster inline --to page"
        ),
        "ls",
    )
    keys = ("run", "show", "compare", "ls")
    return dict(zip(keys, typed_in_turn([*map(shlex.split, lines)], cwd), strict=True))


class TestOwnModel:
    def test_every_command_takes_it(self, own):
        for name, transcript in own.items():
            assert transcript.code == 0, f"{name}\n{transcript.text}"
            check_readable(transcript)

    def test_its_own_metric_is_the_outcome_and_the_target(self, own):
        for name in ("run", "show"):
            assert re.search(r"test mae +0\.\d+", own[name].text)
            assert re.search(r"target +mae<=0.2: reached after \d", own[name].text)

    def test_its_own_metric_is_compared(self, own):
        assert "mae" in own["compare"].words.partition("report:")[0]
        assert re.search(r"Mine .*mae +0\.\d+", own["ls"].words)
