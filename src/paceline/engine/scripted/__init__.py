"""A user's own training script as part of a run."""
