"""A run from its start to its seal: the driver, and what happens in a seat's process."""
