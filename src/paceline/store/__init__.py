"""Runs as folders: writing, sealing and reading them."""
