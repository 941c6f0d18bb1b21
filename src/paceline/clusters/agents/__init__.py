"""Clusters of real machines: one small agent per node, started by what people already run."""
