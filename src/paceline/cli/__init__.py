"""The command line: parse, call one function, print.

Each command is a file here, imported when it is called: `paceline --help` needs neither torch
nor polars and answers at once.
"""

from paceline.cli.app import main

__all__ = ["main"]
