"""Run a user's script in this process, as `python train.py` would."""

from __future__ import annotations

import contextlib
import random
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.errors import LoopError, PacelineError, ScriptFailed, SpecError
from paceline.scripting.current import ScriptOver, ScriptRun, taking_part
from paceline.spec import RunSpec
from paceline.system.named_files import found_at, name_of
from paceline.system.user_modules import is_own
from paceline.workloads.script import Script


def run_script(spec: RunSpec, run: ScriptRun) -> None:
    """Run the script to its end, whichever it is. Raises `ScriptFailed` where that is a failure."""
    script = spec.workload
    assert isinstance(script, Script)
    path = found_at(script.file).resolve()
    _seed(spec.seed)
    try:
        with taking_part(run), _as_main(path, script.args):
            runpy.run_path(str(path), run_name="__main__")
    except ScriptOver:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ScriptFailed(
                f"{_line(end, path)}: it ended itself: sys.exit({end.code!r})"
            ) from end
    except (LoopError, SpecError) as error:
        raise ScriptFailed(f"{_line(error, path)}: {error}") from error
    except PacelineError:
        raise
    except Exception as error:
        if (lost := run.lost_peer(error)) is not None:
            raise lost from None
        traceback.print_exc()  # into this seat's log
        said = f"{_line(error, path)}: {type(error).__name__}: {error}"
        if not run.is_done_before(error, said):
            raise ScriptFailed(said) from error


@contextlib.contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Have the script's arguments and its folder where Python would have put them."""
    import torch

    before, dtype = (sys.argv, [*sys.path]), torch.get_default_dtype()
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
        torch.set_default_dtype(dtype)  # this process may be the driver's, or a notebook's


def _line(error: BaseException, path: Path) -> str:
    """Name the line of the script, or of a module beside it, that was being run.

    What is installed may lie below the script's folder too, and so may Paceline.
    """
    frames = traceback.extract_tb(error.__traceback__)
    files = {each.filename: Path(each.filename) for each in frames}
    theirs = {name for name, file in files.items() if file == path or is_own(file, path.parent)}
    own = [each for each in frames if each.filename in theirs]
    if not own:
        return name_of(path)
    return f"{name_of(Path(own[-1].filename))} line {own[-1].lineno}"


def _seed(seed: int) -> None:
    """Have all copies of a script that seeds nothing draw the same numbers."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what a script may use
    torch.manual_seed(seed)
