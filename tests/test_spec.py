"""A RunSpec: what the workload decides, what cannot be, and back again from TOML."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.clusters import CLUSTERS
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.errors import DataError, Problem, SpecError
from paceline.parts import Record
from paceline.settings import LENGTHS
from paceline.spec import RunSpec
from paceline.strategies import STRATEGIES
from paceline.strategies.local import Single, Solo
from paceline.training.metrics import Target
from paceline.training.optim import Adagrad, Adam, AdamW, Optimizer, Sgd
from paceline.training.schedules import SCHEDULES, Constant, Cosine, Step
from paceline.workloads.mnist import LenetMnist, LogisticMnist
from paceline.workloads.synthetic import Synthetic

SMALL = Synthetic(bytes=400, layers=1, rows=100)


def problems_of(table: dict[str, Any]) -> dict[str, Problem]:
    with pytest.raises(SpecError) as caught:
        RunSpec.from_table(table)
    fields = [problem.field for problem in caught.value.problems]
    assert len(fields) == len(set(fields)), "a field is told twice"
    return dict(zip(fields, caught.value.problems, strict=True))


def test_the_workload_decides_what_is_left_open():
    spec = RunSpec.from_table({"workload": "lenet-mnist"})
    assert spec.workload == LenetMnist()
    assert spec.optimizer == Sgd(lr=0.05, momentum=0.9)
    assert spec.batch == 64
    assert (spec.strategy, spec.cluster, spec.record) == (Single(), Local(), Record())
    assert spec.epochs == 1
    assert spec.threads_each >= 1


def test_a_small_models_arithmetic_has_one_thread():
    assert RunSpec.from_table({"workload": "logistic-mnist"}).threads_each == 1


def test_a_learning_rate_alone_keeps_the_workloads_momentum():
    spec = RunSpec.from_table({"workload": "lenet-mnist", "optimizer": {"lr": 0.5}})
    assert spec.optimizer == Sgd(lr=0.5, momentum=0.9)


def test_another_optimizer_has_defaults_of_its_own():
    spec = RunSpec.from_table({"workload": "lenet-mnist", "optimizer": "adam"})
    assert spec.optimizer == Adam()
    spec = RunSpec.from_table({"workload": "lenet-mnist", "optimizer": {"name": "adamw", "lr": 1}})
    assert spec.optimizer == AdamW(lr=1)


def test_a_schedule_is_asked_for_by_name_by_table_or_by_a_field():
    def schedule_of(value: object) -> object:
        table = {"workload": "lenet-mnist", "optimizer": {"schedule": value}}
        spec = RunSpec.from_table(table)
        assert spec.optimizer == Sgd(lr=0.05, momentum=0.9, schedule=spec.optimizer.schedule)
        return spec.optimizer.schedule

    assert schedule_of("constant") == Constant()
    assert schedule_of({"warmup_steps": 5}) == Constant(warmup_steps=5)
    assert schedule_of({"name": "cosine", "end_step": 9}) == Cosine(end_step=9)
    assert schedule_of({"name": "step", "at_steps": [3, 9]}) == Step(at_steps=(3, 9))
    assert schedule_of(Step(every_steps=2)) == Step(every_steps=2)


def test_a_field_of_the_schedule_alone_keeps_the_rest_of_the_workloads_own(tmp_path: Path):
    file = tmp_path / "scheduled.py"
    file.write_text(
        "from paceline.training.optim import Sgd\n"
        "from paceline.training.schedules import Cosine\n"
        "from paceline import Workload\n"
        "class Mine(Workload):\n"
        "    default_optimizer = Sgd(lr=0.5, schedule=Cosine(end_step=99))\n"
        "    def model(self): ...\n"
        "    def data(self, split, dtype): ...\n"
    )
    workload = f"{file}:Mine"
    given = {"lr": 0.1, "schedule": {"warmup_steps": 7}}
    spec = RunSpec.from_table({"workload": workload, "optimizer": given})
    assert spec.optimizer == Sgd(lr=0.1, schedule=Cosine(end_step=99, warmup_steps=7))
    spec = RunSpec.from_table({"workload": workload, "optimizer": {"schedule": "constant"}})
    assert spec.optimizer == Sgd(lr=0.5)


def test_everything_wrong_with_an_optimizer_and_its_schedule_is_told():
    table = {"workload": "synthetic", "optimizer": {"lr": -1, "schedule": {"name": "cosine"}}}
    assert set(problems_of(table)) == {"optimizer.lr", "optimizer.schedule.end_step"}
    wrong = Sgd(lr=-1, schedule=Cosine(end_step=2, warmup_steps=2))
    with pytest.raises(SpecError) as caught:
        RunSpec(workload=SMALL, optimizer=wrong).checked()
    fields = {problem.field for problem in caught.value.problems}
    assert fields == {"optimizer.lr", "optimizer.schedule.end_step"}
    found = problems_of({"workload": "synthetic", "optimizer": {"schedule": "sine"}})
    assert found["optimizer.schedule"].choices == tuple(SCHEDULES.entries)


def test_a_length_that_is_given_is_the_only_one():
    spec = RunSpec.from_table({"workload": "synthetic", "steps": 5})
    assert (spec.steps, spec.epochs) == (5, None)


def test_everything_wrong_is_told_at_once():
    found = problems_of(
        {
            "workload": {"name": "synthetic", "layers": 0, "colour": "red"},
            "strategy": "rign",
            "cluster": 3,
            "optimizer": {"name": "adam", "beta1": 2},
            "record": {"interval_s": -1, "loss": "some"},
            "num_workers": 3,
            "batch": "most",
            "steps": 1,
            "epochs": 2,
            "sedd": 1,
            "dtype": "int8",
        }
    )
    assert set(found) == {
        "workload.layers",
        "workload.colour",
        "strategy",
        "cluster",
        "optimizer.beta1",
        "record.interval_s",
        "record.loss",
        "batch",
        "sedd",
        "dtype",
    }
    assert found["strategy"].choices == tuple(STRATEGIES.entries)
    assert found["cluster"].choices == tuple(CLUSTERS.entries)
    assert found["record.loss"].choices == ("rows", "all")
    assert found["batch"].choices == ("all",)
    assert "seed" in found["sedd"].choices
    assert found["dtype"].choices == ("float32", "float64")


def test_a_workload_is_needed_and_missed_once():
    assert str(problems_of({})["workload"]) == "workload = None: must be given"
    assert list(problems_of({"workload": "nothing"})) == ["workload"]


@pytest.mark.parametrize("value", [3, "rows", [1]])
def test_a_record_that_is_no_table_is_told(value: object):
    assert problems_of({"workload": "synthetic", "record": value})["record"].value == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_workers", 0),
        ("num_workers", None),
        ("seed", -1),
        ("seed", 2**31),
        ("target_accuracy", 1.1),
        ("target_loss", 0),
        ("target", "mae<0.2"),
        ("target", 0.2),
        ("target", ["mae<=0.2", 3]),
        ("seconds", float("inf")),
        ("steps", 1.5),
        ("threads", 0),
    ],
)
def test_a_value_out_of_its_range_is_told(field: str, value: object):
    found = problems_of({"workload": "synthetic", field: value})
    assert found[field].value == value


class TestTargets:
    def test_all_that_are_given_are_one_list(self):
        asked = {"target_accuracy": 0.9, "target_loss": 0.5, "target": ["top5>=0.99"]}
        spec = RunSpec.from_table({"workload": "resnet20-cifar10", **asked})
        assert list(map(str, spec.targets)) == ["accuracy>=0.9", "loss<=0.5", "top5>=0.99"]

    def test_one_needs_no_list(self):
        spec = RunSpec.from_table({"workload": "synthetic", "target": "mae <= 0.2"})
        assert spec.target == (Target("mae", "lower", 0.2),)
        assert 'target = [\n    "mae<=0.2",\n]' in spec.toml()
        assert "target" not in RunSpec.from_table({"workload": "synthetic"}).toml()

    @pytest.mark.parametrize(
        ("target", "reason", "choices"),
        [
            ("accuracy<=0.9", "accuracy is better when higher", ("accuracy>=0.9",)),
            ("top5<=0.9", "top5 is better when higher", ("top5>=0.9",)),
            ("accuracy>=90", "accuracy is a fraction, from 0 to 1", ()),
        ],
    )
    def test_what_cannot_be_meant_is_told(self, target: str, reason: str, choices: tuple[str]):
        problem = problems_of({"workload": "resnet20-cifar10", "target": target})["target"]
        assert (problem.value, problem.reason, problem.choices) == (target, reason, choices)


def test_two_lengths_are_one_too_many():
    found = problems_of({"workload": "synthetic", "steps": 3, "epochs": 2, "seconds": 1})
    assert set(found) == {"epochs", "seconds"}
    assert found["epochs"].choices == LENGTHS
    assert "steps" in found["epochs"].reason


def test_solo_has_no_global_steps():
    found = problems_of({"workload": "synthetic", "strategy": "solo", "steps": 3})
    assert list(found) == ["steps"]
    assert "worker_steps" in found["steps"].choices
    assert RunSpec.from_table({"workload": "synthetic", "strategy": "solo", "worker_steps": 3})


def test_single_is_one_worker():
    found = problems_of({"workload": "synthetic", "num_workers": 2})
    others = ("solo", "ring", "ddp", "ps-async", "ps-sync", "ps-ssp")
    assert found["num_workers"].choices == others


def test_more_workers_than_rows_are_told():
    spec = RunSpec(workload=SMALL, strategy=Solo(), num_workers=101).checked()
    with pytest.raises(SpecError, match=r"num_workers = 101: more workers than the 100 rows"):
        spec.check_data()


def test_more_rows_a_step_than_there_are_is_told():
    spec = RunSpec(workload=SMALL, strategy=Solo(), num_workers=2, batch=51).checked()
    with pytest.raises(SpecError, match=r"batch = 51: times 2 workers is more than the 100 rows"):
        spec.check_data()
    order = dataclasses.replace(spec, batch=50).check_data()
    assert order.steps_per_epoch == 1


def test_the_batch_all_is_a_workers_whole_share():
    spec = RunSpec(workload=SMALL, strategy=Solo(), num_workers=3, batch="all").checked()
    assert spec.batch == "all"
    assert spec.check_data().batch == 33


def test_data_that_is_not_there_is_told_as_such(tmp_path: Path):
    spec = RunSpec(workload=LogisticMnist(subset="full", data_dir=tmp_path)).checked()
    with pytest.raises(DataError, match="paceline data get mnist"):
        spec.check_data()


def test_a_users_data_that_raises_names_the_workload(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text(
        "from paceline import Workload\n"
        "class Mine(Workload):\n"
        "    def model(self): ...\n"
        "    def data(self, split, dtype): raise OSError('no disk')\n"
    )
    spec = RunSpec.from_table({"workload": f"{file}:Mine"})
    with pytest.raises(SpecError, match=r"own\.py:Mine.*OSError: no disk"):
        spec.check_data()


def test_a_spec_made_in_python_is_checked_like_a_file():
    wrong = RunSpec(
        workload=Synthetic(layers=0),
        strategy=Solo(),
        optimizer=Sgd(lr=-1),
        record=Record(interval_s=0),
        num_workers=0,
        dtype="int8",
    )
    with pytest.raises(SpecError) as caught:
        wrong.checked()
    assert {problem.field for problem in caught.value.problems} == {
        "workload.layers",
        "optimizer.lr",
        "record.interval_s",
        "num_workers",
        "dtype",
    }


@pytest.mark.parametrize(
    "wrong", [{"workload": Sgd()}, {"strategy": LogisticMnist()}, {"record": 3}, {"cluster": 3}]
)
def test_a_part_of_the_wrong_kind_is_told(wrong: dict[str, Any]):
    with pytest.raises(SpecError) as caught:
        RunSpec(**{"workload": SMALL, **wrong}).checked()
    assert [problem.field for problem in caught.value.problems] == list(wrong)


def test_a_class_of_the_users_own_stays_what_it_is_when_checked():
    class Mine(Optimizer):
        num_states = 0

        def step(self, parameters, states, gradient, number, lr):
            pass

    spec = RunSpec(workload=SMALL, optimizer=Mine(lr=3.0)).checked()
    assert type(spec.optimizer) is Mine
    assert spec.optimizer.lr == 3.0


def test_checking_twice_changes_nothing():
    spec = RunSpec(workload=LenetMnist(data_dir=Path("/somewhere")), steps=3).checked()
    assert spec.checked() == spec


def test_a_file_is_read(tmp_path: Path):
    file = tmp_path / "spec.toml"
    file.write_text('workload = "lenet-mnist"\nsteps = 7\n[optimizer]\nlr = 0.5\n')
    spec = RunSpec.read(file)
    assert (spec.steps, spec.optimizer) == (7, Sgd(lr=0.5, momentum=0.9))


@pytest.mark.parametrize("content", [b"steps = ", b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_told_by_name(tmp_path: Path, content: bytes | None):
    file = tmp_path / "spec.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecError, match=r"spec\.toml.*cannot be read"):
        RunSpec.read(file)


def test_a_spec_on_file_names_every_field():
    table = tomllib.loads(RunSpec(workload=SMALL, steps=3).checked().toml())
    assert table["workload"] == {
        "name": "synthetic",
        "bytes": 400,
        "layers": 1,
        "features": 0,
        "nonzeros": 39,
        "rows": 100,
        "data_seed": 0,
    }
    assert table["record"].keys() == {each.name for each in dataclasses.fields(Record)}
    assert table["seed"] == 0


positive = st.floats(min_value=1e-300, max_value=1e300)
fraction = st.floats(0, 1, exclude_max=True)
counts = st.integers(1, 10**9)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
workloads = st.one_of(
    st.builds(
        LenetMnist,
        subset=st.sampled_from(["auto", "full", "tenth"]),
        data_dir=st.none() | names.map(Path),
    ),
    st.builds(LogisticMnist, data_set=st.sampled_from(["mnist", "fashion-mnist"])),
    st.builds(Synthetic, rows=counts, data_seed=st.integers(0, 2**31 - 1)),
)
schedules = st.one_of(
    st.builds(Constant, warmup_steps=st.integers(0, 10**9)),
    st.builds(Step, at_steps=st.lists(counts, min_size=1).map(tuple)),
    st.builds(Step, every_steps=counts),
    st.builds(Cosine, warmup_steps=st.integers(0, 9), end_step=st.integers(10, 10**9)),
)
scaling = st.sampled_from(["none", "linear"])
optimizers = st.none() | st.one_of(
    st.builds(Sgd, lr=positive, momentum=fraction, weight_decay=fraction, schedule=schedules),
    st.builds(Adam, lr=positive, beta1=fraction, beta2=fraction, eps=positive, lr_scaling=scaling),
    st.builds(AdamW, lr=positive, weight_decay=positive),
    st.builds(Adagrad, lr=positive, eps=positive),
)
records = st.builds(
    Record,
    loss=st.sampled_from(["rows", "all"]),
    interval_s=positive,
    monitor_s=positive,
    monitor=st.booleans(),
    steps=st.booleans(),
    model=st.booleans(),
    tensorboard=st.booleans(),
)
lengths = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"seconds": positive}),
    st.tuples(st.sampled_from(["worker_steps", "samples", "epochs"]), counts).map(
        lambda pair: dict([pair])
    ),
)


@given(
    workload=workloads,
    optimizer=optimizers,
    record=records,
    cluster=st.sampled_from([Inline(), Local()]),
    num_workers=st.integers(1, 100),
    length=lengths,
    others=st.fixed_dictionaries(
        {},
        optional={
            "batch": counts | st.just("all"),
            "target_accuracy": st.floats(0, 1, exclude_min=True),
            "target_loss": positive,
            "target": st.lists(
                st.builds(Target, st.just("mae"), st.sampled_from(["higher", "lower"]), positive)
            ).map(tuple),
            "eval_every": counts,
            "eval_samples": counts,
            "seed": st.integers(0, 2**31 - 1),
            "dtype": st.sampled_from(["float32", "float64"]),
            "threads": counts,
        },
    ),
)
def test_toml_and_back_is_the_same_spec(length: dict[str, Any], others: dict[str, Any], **parts):
    spec = RunSpec(strategy=Solo(), **parts, **length, **others).checked()
    text = spec.toml()
    back = RunSpec.from_table(tomllib.loads(text))
    assert back == spec
    assert back.toml() == text
