"""Hosts with a network stack of their own and shaped links, on this machine."""
