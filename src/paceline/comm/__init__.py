"""What travels: tensors between seats, and words between the driver and other processes.

Tensors:

- `base` is the seam of channels; `memory` is one between threads, `zmq` one between processes
- below `zmq`: frames (`wire`), sockets (`connections`, `mailbox`), a made latency (`late_inbox`)
- who is let in: `credentials`, `gate`, `doorstep`; whether others are alive: `vigil`
- on one host: `host_memory`, and waiting for a word of it with `patience`
- sums over all workers: `allreduce`

Words:

- `line` is the seam; `pair_line` is one on one host, `tcp_line` one between hosts; a seat's end of
  either is a `seat_line`
- what may be said: `words`, `monitor_words`, `node_words`, `keeper_words`, of what (`keepsakes`),
  by whom (`vocabularies`); how it travels: `spelling`
- what a seat knows when it begins: `ticket`; who sits where: `roster`
- below `tcp_line`: `secure_socket`, `certificates`, `cut_off`; the driver is called at its
  `switchboard`, by `dialing` with an `invitation`
- the driver's clock elsewhere: `offset`, `round_trips`

And what a node's link carried (`meter`), and logs that cannot be flooded (`complaints`).
"""
