"""Sparse logistic regression on TensorFlow's ParameterServerStrategy, asynchronous.

A step gathers the rows of its batch from the server and subtracts from these rows only; the
table itself never moves. 100 steps are one closure, since that is faster. Rows are drawn evenly,
or those of a file that `paceline data convert` wrote.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from peers import common
from peers.tensorflow_ps import Step, Training, carry_out

NUM_FEATURES = 33_762_578
NUM_NONZEROS = 39
NUM_ROWS = 30_000
BATCH = 100
STEPS_A_CLOSURE = 100


def make_step() -> Step:
    import tensorflow as tf

    weights = tf.Variable(tf.zeros([NUM_FEATURES]))

    def step(features: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            scores = tf.reduce_sum(tf.nn.embedding_lookup(weights, features), axis=1)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        rows = tape.gradient(loss, weights)  # IndexedSlices
        weights.scatter_sub(tf.IndexedSlices(common.LR * rows.values, rows.indices))

    return step


def make_rows(path: Path | None) -> Any:
    from peers import tensorflow_rows

    if path is None:
        return tensorflow_rows.sparse(NUM_FEATURES, NUM_NONZEROS, NUM_ROWS, BATCH)
    return tensorflow_rows.converted(path, NUM_NONZEROS, BATCH)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--rows", type=Path, help="a matrix of converted rows")
    arguments = vars(parser.parse_args())
    rows = partial(make_rows, arguments.pop("rows"))
    carry_out(Training(make_step, rows, STEPS_A_CLOSURE, BATCH), common.Options(**arguments))


if __name__ == "__main__":
    main()
