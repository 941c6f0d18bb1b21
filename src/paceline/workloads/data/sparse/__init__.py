"""Rows of few features out of very many: their file formats, and the numbers features get."""
