"""Running and comparing from Python: what may be asked for, and that it is the command line's."""

import json
from pathlib import Path

import pytest

import paceline
from paceline.api.asking import asked
from paceline.cli.app import app
from paceline.comparing import contest
from tests.made_runs import made

QUICK = {
    "cluster": "inline",
    "workload": {"subset": "tenth"},
    "samples": 150,
    "record": {"monitor": False, "tensorboard": False, "model": False},
}


def spec_of(what, **settings) -> paceline.RunSpec:
    return paceline.RunSpec.from_table(asked(what, settings).table())


class TestAsking:
    @pytest.mark.parametrize(
        "what",
        [
            "lenet-mnist",
            paceline.LenetMnist(),
            paceline.RunSpec(workload=paceline.LenetMnist()),
            "paceline.workloads.mnist:LenetMnist",
        ],
        ids=["name", "workload", "spec", "class"],
    )
    def test_a_workload_is_named_in_any_way(self, what):
        made = spec_of(what, strategy="ring", num_workers=2, optimizer={"lr": 0.5}, epochs=3)
        assert isinstance(made.workload, paceline.LenetMnist)
        assert isinstance(made.strategy, paceline.Ring)
        assert (made.num_workers, made.epochs, made.optimizer.lr) == (2, 3, 0.5)

    def test_a_spec_file_is_read(self, tmp_path):
        file = tmp_path / "spec.toml"
        file.write_text(spec_of("lenet-mnist", epochs=3, seed=7).toml())
        assert spec_of(file, steps=5) == spec_of("lenet-mnist", steps=5, seed=7)
        assert spec_of(str(file)).epochs == 3

    def test_a_field_of_a_live_part_leaves_its_others(self):
        live = paceline.RunSpec(
            workload=paceline.LogisticMnist(subset="tenth"),
            optimizer=paceline.Sgd(lr=0.3, schedule=paceline.Cosine(end_step=9)),
        )
        made = spec_of(live, optimizer={"momentum": 0.5})
        schedule = paceline.Cosine(end_step=9)
        assert made.optimizer == paceline.Sgd(lr=0.3, momentum=0.5, schedule=schedule)
        assert made.workload.subset == "tenth"

    def test_a_live_part_takes_the_place_of_another(self):
        made = spec_of("logistic-mnist", optimizer=paceline.Adam(lr=0.2), batch=None)
        assert made.optimizer == paceline.Adam(lr=0.2)

    def test_what_is_wrong_is_named(self):
        with pytest.raises(paceline.SpecError, match="num_worker = 2: no such field"):
            spec_of("logistic-mnist", num_worker=2)
        with pytest.raises(paceline.SpecError, match="neither a RunSpec, a workload"):
            paceline.run(7)


class TestRun:
    def test_it_is_carried_out_and_kept_in_silence(self, tmp_path, capfd):
        views = []
        result = paceline.run("logistic-mnist", out=tmp_path, watch=views.append, **QUICK)
        assert result.status == "finished"
        assert paceline.load(result).result == result
        assert views[-1].samples == 150
        assert capfd.readouterr() == ("", "")

    def test_progress_is_shown_where_it_is_asked_for(self, tmp_path, capfd):
        paceline.run("logistic-mnist", out=tmp_path, progress=True, **QUICK)
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith("logistic-mnist · single · inline\n")


def replayed(folder: Path):
    """Give runs of known figures, one after the other, where a driver would measure."""
    times = iter([4.0, 8.0, 8.2, 4.1])

    def run(spec, **_):
        return made(folder, spec.strategy.name, num_workers=1, seconds=next(times)).result

    return run


class TestCompare:
    def test_python_gives_what_the_command_line_prints(self, tmp_path, monkeypatch, capsys):
        """Both tell of the same runs, so every figure and every sentence is the same."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(contest.driver, "run", replayed(tmp_path / "one"))
        words = "compare logistic-mnist --strategies single,solo --repeat 2 --samples 150 --to page"
        quick = ["--cluster", "inline", "--set", "workload.subset=tenth", "--json"]
        app([*words.split(), *quick], standalone_mode=False)
        printed = capsys.readouterr().out.splitlines()[-1]
        monkeypatch.setattr(contest.driver, "run", replayed(tmp_path / "two"))
        options = {"strategies": ["single", "solo"], "repeat": 2, **QUICK}
        done = paceline.compare("logistic-mnist", **options)
        assert capsys.readouterr().out == ""
        assert done.report is None
        told = json.dumps({**done.table(), "report": "page/report.html"})
        assert told.replace(f"{tmp_path}/two", f"{tmp_path}/one") == printed
        assert str(done) == "\n".join(json.loads(printed)["conclusion"])
        assert "single" in done.conclusion[0]

    def test_sides_may_be_live_and_vary_in_any_field(self, tmp_path, capfd):
        seen = []
        done = paceline.compare(
            paceline.LogisticMnist(),
            strategies=["single", paceline.Solo()],
            vary={"lr": [0.1, 0.2]},
            repeat=1,
            out=tmp_path,
            watch=seen.append,
            **QUICK,
        )
        assert [(each.strategy.name, each.optimizer.lr) for each in done.chosen] == [
            ("single", 0.1), ("solo", 0.1), ("single", 0.2), ("solo", 0.2),
        ]  # fmt: skip
        assert [each.strategy for each in done.runs] == ["single", "solo"] * 2
        assert seen[-1].total == 4
        assert repr(done) == f"<Comparison of 4 sides: {done.conclusion[0]}>"
        assert done.frame().height == 4
        assert done.report is None
        assert "loss" in " ".join(done.figures())
        assert not done.interrupted
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"repeat": 2, "budget_s": 9.0}, "--budget = 9.0: not with --repeat 2"),
            ({"repeat": 0}, "--repeat = 0"),
            ({"strategies": ["rin"]}, "strategy = 'rin'"),
            ({"vary": {"strategy": ["solo"]}, "strategies": ["ring"]}, "strategy=solo"),
            ({"vary": {"record.monitor": [True]}}, "changes only recording"),
        ],
    )
    def test_what_is_wrong_is_told_before_anything_starts(self, wrong, told, tmp_path):
        with pytest.raises(paceline.SpecError, match=told):
            paceline.compare("logistic-mnist", out=tmp_path, **QUICK, **wrong)
        assert not list(tmp_path.iterdir())
