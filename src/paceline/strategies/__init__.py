"""Strategies: how gradients meet parameters. A new one is one file and one line here."""

from paceline.catalogue import Catalogue, Entry

STRATEGIES = Catalogue(
    "strategy",
    "paceline.strategies.base:Strategy",
    {
        "single": Entry("paceline.strategies.local:Single"),
        "solo": Entry("paceline.strategies.local:Solo"),
        "ring": Entry("paceline.strategies.all_reduce.describe:Ring"),
        "ddp": Entry("paceline.strategies.all_reduce.describe:Ddp"),
        "ps-async": Entry("paceline.strategies.parameter_server.describe:PsAsync"),
        "ps-sync": Entry("paceline.strategies.parameter_server.describe:PsSync"),
        "ps-ssp": Entry("paceline.strategies.parameter_server.describe:PsSsp"),
        "own": Entry("paceline.strategies.own:Own"),
    },
)
