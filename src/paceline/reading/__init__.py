"""What somebody else may have written: read within limits, as values of known types."""
