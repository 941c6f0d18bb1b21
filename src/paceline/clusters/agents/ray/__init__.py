"""Real machines of a Ray cluster: Ray chooses the nodes, and starts one actor on each."""
