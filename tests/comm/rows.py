"""Rows that workers and monitors may tell."""

import math

from paceline.outcome.rows import NodeSample, SeatSample, StepsRow

ROW = StepsRow(
    time_s=0.5, worker_steps=3, samples=30, global_steps=None, count=3, load_s=0.0, compute_s=0.25,
    exchange_s=0.125, sent_bytes=None, received_bytes=4, loss_mean=math.inf, loss_min=1.0,
    loss_max=math.inf, loss_variance=None,
)  # fmt: skip
SAMPLE = NodeSample(
    time_s=0.5, phase="training", cpu_percent=150.0, memory_bytes=9, disk_read_bytes=None,
    disk_written_bytes=0, net_sent_bytes=1, net_received_bytes=2, packets_sent=3,
    packets_received=4,
    seats=(SeatSample(seat="worker0", cpu_percent=None, disk_read_bytes=1, disk_written_bytes=2),),
)  # fmt: skip
