"""Rows for the peers on TensorFlow, as tf.data pipelines that gather batches from memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from peers import common

_NUMBER_BYTES = 4
Pipeline = Any  # TensorFlow has no types to speak of


def mnist(folder: Path) -> Pipeline:
    """Shuffled batches of MNIST. The files are read where the pipeline runs: on the worker."""
    pixels = _file(common.images_path(folder), common.IMAGES_HEADER_BYTES)
    images = tf.reshape(pixels, [common.NUM_ROWS, common.NUM_PIXELS])
    images = tf.cast(images, tf.float32) / 255.0
    labels = tf.cast(_file(common.labels_path(folder), common.LABELS_HEADER_BYTES), tf.int64)
    return _batches((images, labels), common.NUM_ROWS, common.BATCH)


def sparse(num_features: int, num_nonzeros: int, num_rows: int, batch: int) -> Pipeline:
    """Batches of generated rows: features drawn evenly, labels by the parity of their sum."""
    shape = [num_rows, num_nonzeros]
    features = tf.random.uniform(shape, maxval=num_features, dtype=tf.int64)
    odd = tf.reduce_mean(tf.cast(features % 2, tf.float32), axis=1)
    return _batches((features, tf.cast(odd > 0.5, tf.float32)), num_rows, batch)


def converted(path: Path, num_nonzeros: int, batch: int) -> Pipeline:
    """Batches of a file of rows: a label and features each, as numbers of 32 bits."""
    num_columns = 1 + num_nonzeros
    num_rows = path.stat().st_size // (_NUMBER_BYTES * num_columns)
    numbers = tf.io.decode_raw(tf.io.read_file(str(path)), tf.int32)
    rows = tf.reshape(numbers, [num_rows, num_columns])
    labels = tf.cast(rows[:, 0], tf.float32)
    return _batches((rows[:, 1:], labels), num_rows, batch)


def _file(path: Path, header_bytes: int) -> Any:
    return tf.io.decode_raw(tf.io.read_file(str(path)), tf.uint8)[header_bytes:]


def _batches(columns: tuple[Any, ...], num_rows: int, batch: int) -> Pipeline:
    """Take a batch by its indices: one shuffle an epoch and one gather a step cost the least."""

    def epoch(_: Any) -> Pipeline:
        order = tf.reshape(tf.random.shuffle(tf.range(num_rows)), [-1, batch])
        return tf.data.Dataset.from_tensor_slices(order)

    def gather(rows: Any) -> tuple[Any, ...]:
        return tuple(tf.gather(column, rows) for column in columns)

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    forever = tf.data.Dataset.counter().flat_map(epoch)
    return forever.map(gather).prefetch(2).with_options(options)
