"""Sums over all workers: the seam, and the ways they come about."""
