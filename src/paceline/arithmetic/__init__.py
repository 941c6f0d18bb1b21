"""How long a step should take, by arithmetic alone: the one model that everything here asks.

`paceline plan`, the suggestions of `explain` and the studies all take their numbers from here. It
needs no torch, no machine and no run: a step without exchange (`step`), how it varies (`spread`),
a network (`network`), what handling messages costs (`costs`) and how a strategy exchanges
(`exchange`) go in; how often the workers step and what they wait for comes out (`forecast`).
"""
