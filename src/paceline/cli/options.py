"""Options that several commands share: each is told to typer once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def with_options(
    shared: Callable[..., Any], own: Callable[..., None], *, without: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Make a command that takes the options of both; `own` is given what `shared` makes of its own.

    Options of `shared` named in `without` are not offered.
    """
    first, *rest = _parameters(own)
    taken = [each for each in _parameters(shared) if each.name not in without]

    @functools.wraps(own)
    def command(**given: Any) -> None:
        made = shared(**{each.name: given.pop(each.name) for each in taken})
        own(made, **given)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in [*taken, *rest]]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    del command.__wrapped__  # typer would look there for the options
    del first
    return command


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """A function's parameters with their annotations as types, not as text."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return [each.replace(annotation=hints[each.name]) for each in parameters]
