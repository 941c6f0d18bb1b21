"""Logistic regression on TensorFlow's ParameterServerStrategy, asynchronous.

The coordinator, one server and the workers are processes. Each worker takes batches from a
pipeline of its own; a step is one graph, in which the server's variables are read and changed.
The coordinator schedules closures of so many steps and asks none of them for its loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from peers import common

# With a single thread for operations, the server and its workers wait for each other for ever.
INTER_OP_THREADS = 2

Cluster = dict[str, list[str]]
Step = Callable[[Any, Any], None]


@dataclass(frozen=True)
class Training:
    """What is trained, and in closures of how many steps."""

    make_step: Callable[[], Step]
    """Makes the variables, and gives a step on one batch."""
    make_rows: Callable[[], Any]
    """A worker's pipeline."""
    steps_a_closure: int
    counts_a_step: int
    """What the rate counts: one, or the rows of a batch."""


def carry_out(training: Training, options: common.Options) -> None:
    """Start the cluster and print the rate."""
    ports = common.free_ports(options.workers + 2)
    chief, server, *workers = (f"127.0.0.1:{port}" for port in ports)
    cluster = {"chief": [chief], "ps": [server], "worker": workers}
    others = [partial(serve, cluster, "ps", 0)]
    others += [partial(serve, cluster, "worker", index) for index in range(options.workers)]
    lead = partial(coordinate, cluster, training, options)
    common.carry_out(lead, others, preload="tensorflow")


def serve(cluster: Cluster, job: str, index: int) -> None:
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=INTER_OP_THREADS
    )
    spec = tf.train.ClusterSpec(cluster)
    tf.distribute.Server(spec, job_name=job, task_index=index, config=config).join()


def coordinate(cluster: Cluster, training: Training, options: common.Options) -> None:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        step = training.make_step()
    batches = iter(coordinator.create_per_worker_dataset(training.make_rows))
    num_steps = training.steps_a_closure
    closure = one_graph(step, num_steps)
    rate = closures_per_s(lambda: coordinator.schedule(closure, (batches,)), coordinator, options)
    common.answer(
        rate * num_steps * training.counts_a_step,
        f"{num_steps} steps a closure" if num_steps > 1 else "one step a closure",
    )


def one_graph(step: Step, num_steps: int) -> Any:
    """So many steps as one graph, each on a batch of its own."""
    import tensorflow as tf

    def once(batches: Any) -> None:
        step(*next(batches))

    def many_times(batches: Any) -> None:
        for _ in tf.range(num_steps):
            step(*next(batches))

    # A loop in a graph costs more than one step.
    return tf.function(once if num_steps == 1 else many_times)


def closures_per_s(
    schedule: Callable[[], object], coordinator: Any, options: common.Options
) -> float:
    """As many closures for each worker, so that they end together."""

    def run(count: int) -> float:
        began_s = time.perf_counter()
        for _ in range(count):
            schedule()
        coordinator.join()
        return time.perf_counter() - began_s

    count = options.workers
    while (took_s := run(count)) < options.warm_up_s:
        count *= 2
    rounds = count / options.workers * options.seconds / took_s
    count = options.workers * math.ceil(rounds)
    return count / run(count)


def make_step() -> Step:
    import tensorflow as tf

    weights = tf.Variable(tf.zeros([common.NUM_PIXELS, common.NUM_CLASSES]))
    bias = tf.Variable(tf.zeros([common.NUM_CLASSES]))

    def step(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            scores = tf.matmul(images, weights) + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        of_weights, of_bias = tape.gradient(loss, [weights, bias])
        weights.assign_sub(common.LR * of_weights, read_value=False)
        bias.assign_sub(common.LR * of_bias, read_value=False)

    return step


def make_rows(folder: Path) -> Any:
    from peers import tensorflow_rows

    return tensorflow_rows.mnist(folder)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--steps", type=int, default=1, help="steps a closure")
    arguments = vars(parser.parse_args())
    num_steps = arguments.pop("steps")
    options = common.Options(**arguments)
    carry_out(Training(make_step, partial(make_rows, options.data), num_steps, 1), options)


if __name__ == "__main__":
    main()
