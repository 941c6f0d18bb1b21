"""The page of `ps-vs-ring` is made without torch, by layers that were written down."""

import subprocess
import sys

import pytest

from paceline.spec import RunSpec
from paceline.studies.ring_arithmetic import DEVICE, NETWORKS, layers_of
from paceline.workloads.anatomy import examine

PROGRAM = """
import sys
from pathlib import Path
from paceline import reporting
from paceline.exhibits.values import Table
from paceline.studies import load
from paceline.studies.base import page_of
from paceline.studies.grid import Grid
from tests.studies.made_evidence import made_evidence

folder = Path(sys.argv[1])
grid = Grid.read("ps-vs-ring")
whole = made_evidence(folder / "runs", grid.name, "full")
page = page_of(load(grid.name), grid, "full", whole)
tables = {each.name: each for each in page.items if isinstance(each, Table)}
assert tables["closed-form"].frame["model"].n_unique() == 5
assert tables["ring-by-link"].frame["predicted"].null_count() == 0
assert page.claims[0].judgement != "cannot be tested here"
reporting.write(page, folder / "page")
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("workload", NETWORKS)
def test_what_is_written_down_is_what_the_network_is(workload):
    spec = RunSpec.from_table({"workload": workload, "device": DEVICE})
    found = examine(spec.workload).layers
    assert [(each.name, each.num_parameters, each.multiply_adds) for each in found] == [
        (each.name, each.num_parameters, each.multiply_adds) for each in layers_of(workload)
    ]


def test_the_page_of_ps_vs_ring_is_made_without_torch(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page" / "report.html").exists()
