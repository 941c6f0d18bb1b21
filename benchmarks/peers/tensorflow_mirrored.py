"""Logistic regression on TensorFlow's MultiWorkerMirroredStrategy: synchronous, all-reduce."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

from peers import common

INTER_OP_THREADS = 2
# A loop of many steps is one graph: Python is left and entered once for all of them.
STEPS_A_CALL = 20


def work(options: common.Options, addresses: list[str], rank: int) -> None:
    """Step for ever; rank 0 says how fast, and with it all end."""
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    import tensorflow as tf

    from peers import tensorflow_rows

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([common.NUM_PIXELS, common.NUM_CLASSES]))
        bias = tf.Variable(tf.zeros([common.NUM_CLASSES]))
    batches = iter(tensorflow_rows.mnist(options.data))

    def step(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            scores = tf.matmul(images, weights) + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [weights, bias])
        context = tf.distribute.get_replica_context()
        of_weights, of_bias = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        weights.assign_sub(common.LR * of_weights, read_value=False)
        bias.assign_sub(common.LR * of_bias, read_value=False)

    def steps() -> None:
        for _ in tf.range(STEPS_A_CALL):
            strategy.run(step, args=next(batches))

    call = tf.function(steps)
    while rank:
        call()
    rate = common.rate_of(call, options) * STEPS_A_CALL
    common.answer(rate, f"RING over gRPC, {STEPS_A_CALL} steps a graph")


def main() -> None:
    options = common.options(__doc__)
    addresses = [f"127.0.0.1:{port}" for port in common.free_ports(options.workers)]
    lead, *others = (partial(work, options, addresses, rank) for rank in range(options.workers))
    common.carry_out(lead, others, preload="tensorflow")


if __name__ == "__main__":
    main()
