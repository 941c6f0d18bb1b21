"""What a training script calls: nothing outside of a run, and the run's own part within one."""
