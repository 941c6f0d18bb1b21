"""Studies: the experiments of the reports, as grids of runs, tables, figures and claims.

A new one is a TOML file, a module with a `STUDY`, and one line here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from paceline.studies.base import Study

STUDIES: Final = {
    "mnist-logistic": "softmax regression on MNIST under two parameter servers",
    "lenet-scaling": "LeNet on one to three nodes, and at batches of 8 to 1,024",
    "alexnet-scaling": "AlexNet on two and three machines",
    "criteo-sparse": "logistic regression with 33,762,578 weights on sparse rows",
    "ps-vs-ring": "five networks, one to six workers, parameter server against ring",
    "faults": "what survives a fault, and what it costs",
}
NOTE: Final = "study.json"
"""The file by which a folder is known to be a study's."""
RUNS: Final = "runs"
"""Where in it the runs are."""


def load(name: str) -> Study:
    """Import a study by its name."""
    if name not in STUDIES:
        raise SpecError([Problem("study", name, "no study of that name", tuple(STUDIES))])
    module = importlib.import_module(f"paceline.studies.{name.replace('-', '_')}")
    study: Study = module.STUDY
    return study
