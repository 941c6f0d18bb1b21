"""Progress as people see it: in a terminal, in a pipe, in a notebook."""
