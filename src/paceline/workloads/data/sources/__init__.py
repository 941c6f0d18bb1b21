"""Where data files can come from: one file for each kind of source."""
