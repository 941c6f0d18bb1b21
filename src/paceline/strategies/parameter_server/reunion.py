"""A server that was started again, until all workers that were there before have greeted it."""

from __future__ import annotations

from collections.abc import Collection
from typing import final

from paceline.strategies.parameter_server.application import Application
from paceline.strategies.parameter_server.link import Greeting
from paceline.strategies.place import Place


@final
class Reunion:
    """Passes greetings on, and says once how many updates were lost."""

    def __init__(self, place: Place, application: Application) -> None:
        self._place = place
        self._application = application
        self._missing = set(place.roster.worker_numbers)
        self._version = self._newest = application.keep.version
        self._is_over = False

    def greet(self, greeting: Greeting, version: int) -> None:
        """A worker says how far it is, and up to which version it has seen parameters."""
        self._newest = max(self._newest, version)
        self._application.greet(greeting)
        self._missing.discard(greeting.worker)
        self.look()

    def follow(self, workers: Collection[int]) -> None:
        """Wait for none that is gone."""
        self._missing &= set(workers)
        self.look()

    def look(self) -> None:
        """Say that all have greeted, once."""
        if not self._missing and not self._is_over:
            self._is_over = True
            self._place.say_restored(self._version, self._newest - self._version)
