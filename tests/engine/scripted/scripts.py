"""Runs of scripts, for tests: those of the examples, and small ones written here."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from paceline.outcome.results import Result
from paceline.spec import RunSpec
from tests.sharing import run

EXAMPLES = Path(__file__).parents[3] / "examples" / "scripts"
QUIET = {"monitor": False, "tensorboard": False}


def spec_of(script: Path, *args: str, strategy: str = "single", **settings: Any) -> RunSpec:
    number = settings.pop("num_workers", 1 if strategy == "single" else 2)
    return RunSpec.from_table(
        {
            "workload": {"name": str(script), "args": list(args)},
            "strategy": {"name": strategy, **settings.pop("fields", {})},
            "num_workers": number,
            "threads": 1,
            "record": QUIET,
            **settings,
        }
    )


def run_script(out: Path, script: Path, *args: str, **settings: Any) -> Result:
    return run(spec_of(script, *args, **settings), out=out)


def log_of(result: Result, seat: str = "worker0") -> str:
    return (Path(result.run) / "logs" / f"{seat}.log").read_text()


def assert_same_model(one: Result, other: Result, tolerance: float = 1e-9) -> None:
    first, second = (load_file(Path(each.run) / "model.safetensors") for each in (one, other))
    assert first.keys() == second.keys()
    for name, values in first.items():
        difference = (values - second[name]).abs().max().item()
        assert difference <= tolerance, (name, difference)
