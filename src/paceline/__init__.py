"""How should this model be trained across these machines?

    import paceline

    result = paceline.run("logistic-mnist", strategy="ring", num_workers=2, epochs=10)
    print(paceline.explain(result))
    print(paceline.compare("logistic-mnist", strategies=["ring", "ps-sync"], epochs=10))

`dir(paceline)` lists what there is: the functions of the command line, the workloads, strategies,
clusters and optimizers, and what your own are made of. Names are imported when they are first used,
so `import paceline` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.api.planned import Planned, plan
    from paceline.api.resuming import resume
    from paceline.api.running import compare, run
    from paceline.api.stored import Run, explain, load, runs
    from paceline.api.written import WrittenReport, report
    from paceline.clusters.agents.manual.describe import Manual
    from paceline.clusters.agents.ray.describe import Ray
    from paceline.clusters.agents.ssh import Ssh
    from paceline.clusters.agents.torchrun.describe import Torchrun
    from paceline.clusters.base import Cluster
    from paceline.clusters.emulated.describe import Emulated
    from paceline.clusters.inline import Inline
    from paceline.clusters.local import Local
    from paceline.clusters.zygote import Zygote
    from paceline.comm.base import Channel, Message
    from paceline.comparing.comparison import Comparison
    from paceline.comparing.contest import ContestStanding
    from paceline.engine.progress import RunView
    from paceline.errors import (
        DataError,
        Interrupted,
        NotHere,
        PacelineError,
        Problem,
        RunError,
        SeatFailed,
        SpecError,
        StoreError,
        WorkloadError,
    )
    from paceline.exhibits.values import Figure
    from paceline.outcome.results import Result
    from paceline.parts import Record
    from paceline.scripting.public import (
        evaluating,
        is_main,
        log,
        no_sync,
        num_workers,
        rank,
        wrap,
    )
    from paceline.spec import RunSpec
    from paceline.strategies.all_reduce.describe import Ddp, Ring
    from paceline.strategies.base import Member, Place, Strategy
    from paceline.strategies.local import Single, Solo
    from paceline.strategies.own import Own
    from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
    from paceline.training.finite import OF_ANOTHER, flaw_in
    from paceline.training.metrics import Better, Target
    from paceline.training.optim import Adagrad, Adam, AdamW, Optimizer, Sgd, Update
    from paceline.training.schedules import Constant, Cosine, Schedule, Step
    from paceline.training.session import Session
    from paceline.verdict.explanation import Explanation
    from paceline.workloads.base import ALL_CORES, Batch, Data, Tensors, Workload
    from paceline.workloads.cifar import AlexnetCifar10, Resnet20Cifar10, ResnetCifar10, VggCifar10
    from paceline.workloads.criteo import LogisticCriteo
    from paceline.workloads.imagefolder import ImageFolder
    from paceline.workloads.libsvm import LogisticLibsvm
    from paceline.workloads.mnist import LenetMnist, LogisticMnist
    from paceline.workloads.synthetic import Synthetic

_HOMES = {
    "paceline.api.resuming": ("resume",),
    "paceline.api.planned": (
        "Planned",
        "plan",
    ),
    "paceline.api.running": (
        "compare",
        "run",
    ),
    "paceline.api.stored": (
        "Run",
        "explain",
        "load",
        "runs",
    ),
    "paceline.api.written": (
        "WrittenReport",
        "report",
    ),
    "paceline.clusters.base": ("Cluster",),
    "paceline.clusters.agents.manual.describe": ("Manual",),
    "paceline.clusters.agents.ray.describe": ("Ray",),
    "paceline.clusters.agents.ssh": ("Ssh",),
    "paceline.clusters.agents.torchrun.describe": ("Torchrun",),
    "paceline.clusters.emulated.describe": ("Emulated",),
    "paceline.clusters.inline": ("Inline",),
    "paceline.clusters.local": ("Local",),
    "paceline.clusters.zygote": ("Zygote",),
    "paceline.comm.base": (
        "Channel",
        "Message",
    ),
    "paceline.comparing.comparison": ("Comparison",),
    "paceline.comparing.contest": ("ContestStanding",),
    "paceline.engine.progress": ("RunView",),
    "paceline.errors": (
        "DataError",
        "Interrupted",
        "NotHere",
        "PacelineError",
        "Problem",
        "RunError",
        "SeatFailed",
        "SpecError",
        "StoreError",
        "WorkloadError",
    ),
    "paceline.exhibits.values": ("Figure",),
    "paceline.outcome.results": ("Result",),
    "paceline.parts": ("Record",),
    "paceline.scripting.public": (
        "evaluating",
        "is_main",
        "log",
        "no_sync",
        "num_workers",
        "rank",
        "wrap",
    ),
    "paceline.spec": ("RunSpec",),
    "paceline.strategies.all_reduce.describe": (
        "Ddp",
        "Ring",
    ),
    "paceline.strategies.base": (
        "Member",
        "Place",
        "Strategy",
    ),
    "paceline.strategies.local": (
        "Single",
        "Solo",
    ),
    "paceline.strategies.own": ("Own",),
    "paceline.strategies.parameter_server.describe": (
        "PsAsync",
        "PsSsp",
        "PsSync",
    ),
    "paceline.training.finite": (
        "OF_ANOTHER",
        "flaw_in",
    ),
    "paceline.training.metrics": (
        "Better",
        "Target",
    ),
    "paceline.training.optim": (
        "Adagrad",
        "Adam",
        "AdamW",
        "Optimizer",
        "Sgd",
        "Update",
    ),
    "paceline.training.session": ("Session",),
    "paceline.training.schedules": (
        "Constant",
        "Cosine",
        "Schedule",
        "Step",
    ),
    "paceline.verdict.explanation": ("Explanation",),
    "paceline.workloads.base": (
        "ALL_CORES",
        "Batch",
        "Data",
        "Tensors",
        "Workload",
    ),
    "paceline.workloads.cifar": (
        "AlexnetCifar10",
        "Resnet20Cifar10",
        "ResnetCifar10",
        "VggCifar10",
    ),
    "paceline.workloads.criteo": ("LogisticCriteo",),
    "paceline.workloads.imagefolder": ("ImageFolder",),
    "paceline.workloads.libsvm": ("LogisticLibsvm",),
    "paceline.workloads.mnist": (
        "LenetMnist",
        "LogisticMnist",
    ),
    "paceline.workloads.synthetic": ("Synthetic",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ALL_CORES",
    "OF_ANOTHER",
    "Adagrad",
    "Adam",
    "AdamW",
    "AlexnetCifar10",
    "Batch",
    "Better",
    "Channel",
    "Cluster",
    "Comparison",
    "Constant",
    "ContestStanding",
    "Cosine",
    "Data",
    "DataError",
    "Ddp",
    "Emulated",
    "Explanation",
    "Figure",
    "ImageFolder",
    "Inline",
    "Interrupted",
    "LenetMnist",
    "Local",
    "LogisticCriteo",
    "LogisticLibsvm",
    "LogisticMnist",
    "Manual",
    "Member",
    "Message",
    "NotHere",
    "Optimizer",
    "Own",
    "PacelineError",
    "Place",
    "Planned",
    "Problem",
    "PsAsync",
    "PsSsp",
    "PsSync",
    "Ray",
    "Record",
    "Resnet20Cifar10",
    "ResnetCifar10",
    "Result",
    "Ring",
    "Run",
    "RunError",
    "RunSpec",
    "RunView",
    "Schedule",
    "SeatFailed",
    "Session",
    "Sgd",
    "Single",
    "Solo",
    "SpecError",
    "Ssh",
    "Step",
    "StoreError",
    "Strategy",
    "Synthetic",
    "Target",
    "Tensors",
    "Torchrun",
    "Update",
    "VggCifar10",
    "Workload",
    "WorkloadError",
    "WrittenReport",
    "Zygote",
    "compare",
    "evaluating",
    "explain",
    "flaw_in",
    "is_main",
    "load",
    "log",
    "no_sync",
    "num_workers",
    "plan",
    "rank",
    "report",
    "resume",
    "run",
    "runs",
    "wrap",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
