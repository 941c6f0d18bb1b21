"""A run from its start to its seal: the driver, and what happens in a seat's process.

In the driver, no torch:

- the way of a run: `driver`, what is `known` before it, its `origin` if it is resumed, how it is
  begun `again`, the files it needs elsewhere (`packing`), `threads`, `latency`, `plain`
- what seats say: `conductor`, its parts (`ensemble`), `lines`, `attendance`, `leaving`,
  `oddities`, `silence`, `reports`
- when all rest: `agenda`, `gates`, `newcomers`, `settling`, `shared_evaluation`, `monitors`,
  `keeping`, `handouts`
- who is lost: `departures`, `losses`, `last_checkpoint`, `inheritance`, `server_returns`,
  `common_versions`, `injector`, `disturbances`
- the end, and what is told: `ending`, `stopping`, `ledger`, `notes`, `progress`, `shown`
- what is done on nodes without a run: `on_nodes`

In a seat:

- a worker: `worker`, `session`, `feed`, `row_writer`, `limits`, `evaluation`, `graph`,
  `worker_state`, `worker_account`, `taking_over`
- its place: `seating`, `computing`, `fingerprint`; a server: `serving`
- checkpoints: `upkeep`, `restoring`
- what is no run: `thread_trial`, `node_tasks`
- a user's own script as a worker: `scripted`
"""
