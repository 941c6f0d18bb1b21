"""Logistic regression in Spark on libsvm files: MLlib's L-BFGS, or its mini-batch SGD.

Rows are read and kept in memory before the clock starts; evaluation is not timed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.ml.classification import LogisticRegression
from pyspark.mllib.classification import LogisticRegressionWithSGD
from pyspark.mllib.util import MLUtils
from pyspark.sql import SparkSession

MEMORY = "6g"
# Without one, weights of features that occur once grow until the test rows are predicted worse
# than by no model at all.
PENALTY = 1e-5


def log_loss(labels: Any, chances: Any) -> float:
    kept = np.clip(np.asarray(chances, float), 1e-12, 1 - 1e-12)
    right = np.asarray(labels, float)
    return float(-np.mean(right * np.log(kept) + (1 - right) * np.log(1 - kept)))


def l_bfgs(spark: SparkSession, arguments: argparse.Namespace) -> tuple[float, float, str]:
    read = spark.read.format("libsvm").option("numFeatures", arguments.features)
    train = read.load(str(arguments.train)).cache()
    train.count()
    trainer = LogisticRegression(
        maxIter=arguments.iterations, regParam=PENALTY, standardization=False
    )
    began = time.perf_counter()
    model = trainer.fit(train)
    seconds = time.perf_counter() - began
    tested = model.transform(read.load(str(arguments.test))).select("label", "probability")
    pairs = [(row.label, row.probability[1]) for row in tested.collect()]
    loss = log_loss(*zip(*pairs, strict=True))
    setting = f"MLlib LogisticRegression, {arguments.iterations} iterations of L-BFGS"
    return seconds, loss, f"{setting}, penalty {PENALTY:g}"


def sgd(spark: SparkSession, arguments: argparse.Namespace) -> tuple[float, float, str]:
    context = spark.sparkContext
    train = MLUtils.loadLibSVMFile(context, str(arguments.train), arguments.features).cache()
    train.count()
    test = MLUtils.loadLibSVMFile(context, str(arguments.test), arguments.features)
    began = time.perf_counter()
    model = LogisticRegressionWithSGD.train(
        train,
        iterations=arguments.iterations,
        step=1.0,
        miniBatchFraction=arguments.fraction,
        regType=None,
        validateData=False,
    )
    seconds = time.perf_counter() - began
    model.clearThreshold()
    chances = model.predict(test.map(lambda point: point.features)).collect()
    loss = log_loss(test.map(lambda point: point.label).collect(), chances)
    setting = f"MLlib LogisticRegressionWithSGD, {arguments.iterations} mini-batches"
    return seconds, loss, f"{setting} of {arguments.fraction:g} of the rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["lbfgs", "sgd"])
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--features", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--fraction", type=float, default=0.01)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", MEMORY)
        .config("spark.driver.maxResultSize", MEMORY)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    train = l_bfgs if arguments.how == "lbfgs" else sgd
    seconds, loss, setting = train(spark, arguments)
    spark.stop()
    setting = f"{setting}, Spark {spark.version}, 2 threads"
    print(json.dumps({"seconds": seconds, "log_loss": loss, "setting": setting}))


if __name__ == "__main__":
    main()
