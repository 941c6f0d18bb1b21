"""`paceline data` with all its commands."""

from paceline.cli.convert import convert
from paceline.cli.data import app

__all__ = ["app"]

app.command("convert")(convert)
