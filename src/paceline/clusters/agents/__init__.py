"""Clusters of real machines: one small agent per node, started by what people already run.

- on each node: `agent`, and a `nursery` that imports torch and forks keepers; what the driver has
  of all: a `fleet`, kept between runs by `fleets`, and the `crew` of one run
- ways to start agents: `ssh`, `torchrun`, `ray`, `manual`; what all are asked alike: `remote`;
  which address agents are to call: `addresses`; libraries that the driver does not import are
  spoken with through a `json_process`
- before a run: `versions` must fit, `pairs` and `probing` measure the ways between nodes
- what strangers can read is encrypted: `seal`, with a `secret`
"""
