"""How should this model be trained across these machines?

    import paceline
    from paceline.workloads.mnist import LogisticMnist

    result = paceline.run(paceline.RunSpec(workload=LogisticMnist(), epochs=1))

Names are imported when they are first used, so `import paceline` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.clusters.zygote import Zygote
    from paceline.driver import run
    from paceline.errors import PacelineError
    from paceline.metrics import Better, Target
    from paceline.parts import Record
    from paceline.results import Result
    from paceline.spec import RunSpec
    from paceline.strategies.base import Member, Place, Strategy
    from paceline.workloads.base import Batch, Data, Tensors, Workload

_HOMES = {
    "run": "paceline.driver",
    "PacelineError": "paceline.errors",
    "Result": "paceline.results",
    "Better": "paceline.metrics",
    "Target": "paceline.metrics",
    "Record": "paceline.parts",
    "RunSpec": "paceline.spec",
    "Member": "paceline.strategies.base",
    "Place": "paceline.strategies.base",
    "Strategy": "paceline.strategies.base",
    "Batch": "paceline.workloads.base",
    "Data": "paceline.workloads.base",
    "Tensors": "paceline.workloads.base",
    "Workload": "paceline.workloads.base",
    "Zygote": "paceline.clusters.zygote",
}

__all__ = [
    "Batch",
    "Better",
    "Data",
    "Member",
    "PacelineError",
    "Place",
    "Record",
    "Result",
    "RunSpec",
    "Strategy",
    "Target",
    "Tensors",
    "Workload",
    "Zygote",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
