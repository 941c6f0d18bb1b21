"""Fuzzing guided by atheris, which ends its process: in a child, and in a folder of its own."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any


def fuzz(
    functions: Sequence[FunctionType],
    one_input: Callable[[bytes], Any],
    arguments: Sequence[str],
) -> None:
    """Have atheris call `one_input` until it has found something, or has had its runs."""
    import atheris

    for function in functions:
        atheris.instrument_func(function)
    # What it writes, as an input that is too slow, goes to the folder that `in_child` has entered.
    atheris.Setup([sys.argv[0], *arguments], lambda data: one_input(data) and None)
    atheris.Fuzz()


def in_child(work: Callable[[Path], None]) -> None:
    """Do it in a child and end as it ends; its folder stays only where it found something."""
    folder = Path(tempfile.mkdtemp())
    child = os.fork()
    if not child:
        os.chdir(folder)
        work(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"what was found is in {folder}")
    shutil.rmtree(folder)
