"""A name, `file.py:Class` or `module:Class` leads to a description, or to a message that helps."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.catalogue import Catalogue, Entry
from paceline.description import Count, Description
from paceline.errors import Problem, SpecError
from paceline.parts import PARTS
from paceline.spec import RunSpec
from paceline.training.optim import OPTIMIZERS
from paceline.workloads import WORKLOADS

OWN = """
from paceline import Workload

class Mine(Workload):
    size: int = 3
    def model(self): ...
    def data(self, split, dtype): ...

    class Inner(Workload):
        def model(self): ...
        def data(self, split, dtype): ...

class Half(Workload):
    def model(self): ...

number = 5
"""


class Lamp(Description):
    colour: str = "white"
    watts: Count = 5

    @property
    def name(self) -> str:
        return "red-lamp" if self.colour == "red" else "lamp"


LAMPS = Catalogue(
    "lamp",
    f"{__name__}:Lamp",
    {"lamp": Entry(f"{__name__}:Lamp"), "red-lamp": Entry(f"{__name__}:Lamp", {"colour": "red"})},
)


def problem_of(catalogue: Catalogue, table: dict[str, Any]) -> Problem:
    with pytest.raises(SpecError) as caught:
        catalogue.build(table)
    (problem,) = caught.value.problems
    return problem


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


def test_an_unknown_name_lists_the_choices():
    problem = problem_of(WORKLOADS, {"name": "logistic-mnits"})
    assert problem.field == "workload"
    assert problem.value == "logistic-mnits"
    assert problem.choices == tuple(WORKLOADS.entries)


@pytest.mark.parametrize("table", [{}, {"name": 3}, {"name": None}])
def test_a_name_is_needed(table: dict[str, Any]):
    problem = problem_of(WORKLOADS, table)
    assert problem.reason == "a name is needed"
    assert problem.choices == tuple(WORKLOADS.entries)


MUST_BE_GIVEN = {
    "imagefolder": {"folder": "pictures"},
    "ssh": {"hosts": ["a"]},
    "manual": {"hosts": {"worker": ["a"]}},
}


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part in PARTS for name in PARTS[part].entries]
)
def test_every_built_in_is_found_by_its_name_and_gives_it_back(part: str, name: str):
    made = PARTS[part].build({"name": name, **MUST_BE_GIVEN.get(name, {})})
    assert made.name == name
    assert PARTS[part].build(made.table()) == made


def test_a_name_can_stand_for_fields():
    assert LAMPS.build({"name": "red-lamp"}) == Lamp(colour="red")
    assert LAMPS.build({"name": "red-lamp", "colour": "red", "watts": 9}).watts == 9
    assert LAMPS.build(Lamp(colour="red").table()) == Lamp(colour="red")


def test_a_field_that_the_name_contradicts_is_told():
    problem = problem_of(LAMPS, {"name": "red-lamp", "colour": "blue"})
    assert str(problem) == "lamp.colour = 'blue': red-lamp means colour = 'red'"


def test_a_users_class_comes_from_a_file_and_its_name_round_trips(own: Path):
    made = WORKLOADS.build({"name": f"{own}:Mine", "size": 7})
    assert made.size == 7
    assert made.name == f"{own}:Mine"
    assert WORKLOADS.build(made.table()) == made


def test_a_class_inside_a_class_round_trips(own: Path):
    made = WORKLOADS.build({"name": f"{own}:Mine.Inner"})
    assert WORKLOADS.build(made.table()) == made


def test_a_file_is_found_from_where_the_user_is(own: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(own.parent)
    assert WORKLOADS.build({"name": "own.py:Mine"}).name == f"{own}:Mine"


def test_a_users_class_comes_from_a_module_in_the_current_folder(tmp_path: Path):
    (tmp_path / "own_module.py").write_text(OWN)
    code = (
        "from paceline.workloads import WORKLOADS as w\n"
        "made = w.build({'name': 'own_module:Mine', 'size': 7})\n"
        "print(made.size, w.build(made.table()).size, made.name)"
    )
    # A console script has its own folder, not the current one, on sys.path: as with -P.
    command = [sys.executable, "-P", "-c", code]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["7", "7", f"{tmp_path}/own_module.py:Mine"]


def test_a_users_file_can_import_its_neighbour(tmp_path: Path):
    (tmp_path / "neighbour_of_own.py").write_text("from paceline.workloads.mnist import Mnist\n")
    file = tmp_path / "own.py"
    file.write_text(OWN + "\nfrom neighbour_of_own import Mnist\n")
    assert WORKLOADS.build({"name": f"{file}:Mine"}).size == 3


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("Half", "does not define data"),
        ("number", "not a subclass of paceline.workloads.base.Workload"),
        ("Workload", "does not define data, model"),
        ("Missing", "defines no Missing"),
        ("Mine.Missing", "defines no Mine.Missing"),
        ("", "defines no"),
    ],
)
def test_what_is_wrong_with_a_users_class_is_told(own: Path, attribute: str, reason: str):
    problem = problem_of(WORKLOADS, {"name": f"{own}:{attribute}"})
    assert problem.field == "workload"
    assert reason in problem.reason


def test_a_class_of_another_kind_is_told(own: Path):
    problem = problem_of(OPTIMIZERS, {"name": f"{own}:Mine"})
    assert problem.reason == "not a subclass of paceline.training.optim.Optimizer"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_and_can_be_mended(
    tmp_path: Path, code: str, reason: str
):
    file = tmp_path / "own.py"
    file.write_text(code)
    name = f"{file}:Mine"
    assert reason in problem_of(WORKLOADS, {"name": name}).reason
    file.write_text(OWN)
    assert WORKLOADS.build({"name": name}).size == 3


@pytest.mark.parametrize("name", ["nowhere.py:Mine", "no.such.module:Mine", ":Mine", "::", ".x:M"])
def test_a_place_that_is_not_there_is_told(name: str):
    problem = problem_of(WORKLOADS, {"name": name})
    assert problem.value == name
    assert "cannot be imported" in problem.reason


def test_a_users_field_is_checked_like_a_built_in_one(own: Path):
    problem = problem_of(WORKLOADS, {"name": f"{own}:Mine", "size": "big"})
    assert (problem.field, problem.value) == ("workload.size", "big")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"cluster": {"link": "1gbit"}}, ("cluster.link = '1gbit': no such field of local; "
         "add --cluster emulated (choices: transport, encrypt)")),
        ({"strategy": {"prefetch": True}}, ("strategy.prefetch = True: no such field of single; "
         "add --strategy ps-async or --strategy ps-ssp (choices: sparse)")),
        ({"cluster": {"name": "inline", "transport": "zmq"}}, ("cluster.transport = 'zmq': "
         "no such field of inline; add --cluster local")),
        ({"optimizer": {"betas": 1}}, "optimizer.betas = 1: no such field (choices: "),
    ],
)  # fmt: skip
def test_a_field_of_another_is_answered_with_whose_it_is(table, told):
    with pytest.raises(SpecError, match=re.escape(told)):
        RunSpec.from_table({"workload": "synthetic", **table})


def test_where_a_users_file_raised_is_kept(tmp_path):
    (tmp_path / "mine.py").write_text("def broken():\n    return {}['missing']\n\nbroken()\n")
    with pytest.raises(SpecError) as error:
        WORKLOADS.build({"name": f"{tmp_path}/mine.py:Mine"})
    (problem,) = error.value.problems
    assert problem.traceback.splitlines()[1] == f'  File "{tmp_path}/mine.py", line 4, in <module>'
    assert "catalogue.py" not in problem.traceback
    assert problem.traceback.endswith("KeyError: 'missing'")
