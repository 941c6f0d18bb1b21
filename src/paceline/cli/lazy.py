"""Commands by name: a command's module is imported when the command is called, not to list it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

_PASSED: Final = "paceline.cli.passed_on"


@final
class _PassingOn(TyperCommand):
    """A command that leaves what stands after `--` to whatever it runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_PASSED] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


def passed_on(context: typer.Context | None) -> tuple[str, ...]:
    """Give what stood after `--`."""
    if context is None:  # a function that was called by another
        return ()
    given: tuple[str, ...] = context.meta.get(_PASSED, ())
    return given


@final
@dataclass(frozen=True)
class CommandEntry:
    """A command as the overview shows it, and where it is."""

    name: str
    line: str
    """The first paragraph of its help, which the overview shows."""
    module: str
    """Its module in `paceline.cli`; has a function, or a group `app`, of the command's name.

    The help is the module's `HELP`, or where there is none the function's docstring.
    """
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How its arguments are read, where that is not as usual."""
    passes_on: bool = False
    """Whether what stands after `--` is not its own: the function finds it in `passed_on`."""

    def listed(self) -> TyperCommand:
        """Make a command that can be listed, and not be called."""
        return TyperCommand(self.name, help=self.line)

    def load(self) -> Any:
        """Import the module and make the command."""
        module = importlib.import_module(f"paceline.cli.{self.module}")
        group = getattr(module, "app", None)
        if group is not None:
            return get_command(group)
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        function = getattr(module, self.name)
        settings = dict(self.settings)
        make = alone.command(
            self.name,
            cls=_PassingOn if self.passes_on else TyperCommand,
            help=getattr(module, "HELP", None),
            context_settings=settings,
        )
        make(function)
        return get_command(alone)


def group_of(entries: Sequence[CommandEntry]) -> type[TyperGroup]:
    """Make the class of a group that has these commands."""

    @final
    class Lazy(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {each.name: each.listed() for each in entries}
            self._entries = {each.name: each for each in entries}

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            """Find the command that is called, or whose own help is asked for."""
            name, _, rest = super().resolve_command(ctx, args)
            return name, self._entries[name].load() if name else None, rest

        def loaded(self) -> dict[str, Any]:
            """Load every command, by its name."""
            return {name: each.load() for name, each in self._entries.items()}

    return Lazy
