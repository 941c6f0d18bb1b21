"""What a worker trains with: a model as one vector, optimizers, schedules."""
