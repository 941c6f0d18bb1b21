"""Parameter servers: asynchronous, synchronous, bounded-stale."""
