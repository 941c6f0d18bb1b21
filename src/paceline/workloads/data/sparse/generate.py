"""Generated rows, written once to TFRecord files in the cache folder and read back from there."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np

from paceline.errors import DataError
from paceline.reading import untrusted
from paceline.reading.schema import read
from paceline.store.whole_files import written_beside
from paceline.workloads.data.catalogue import default_data_dir
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.data.sparse import shape
from paceline.workloads.data.sparse.binary import is_converted
from paceline.workloads.data.sparse.convert import convert
from paceline.workloads.data.sparse.example_writer import framed
from paceline.workloads.data.sparse.examples import Array
from paceline.workloads.data.staging import held
from paceline.workloads.data.stream import prepared
from paceline.workloads.ranking import area_under_curve

FOLDER: Final = "criteo-generated"
_FACTS: Final = "generated.json"
_ROWS_A_FILE: Final = 250_000
_ROWS_AT_ONCE: Final = 10_000
# Goes into the folder's name: rows that are drawn differently are other rows.
_VERSION: Final = 1
_TRAIN, _TEST = 1, 2


@final
@dataclass(frozen=True, kw_only=True)
class Generated:
    """Which rows are generated."""

    num_rows: int
    num_test: int
    num_features: int
    seed: int
    data_dir: Path | None = None

    @property
    def folder(self) -> Path:
        name = f"v{_VERSION}-{self.num_features}-{self.num_rows}-{self.num_test}-{self.seed}"
        return (self.data_dir or default_data_dir()) / FOLDER / name

    @property
    def train(self) -> Path:
        return self.folder / "train-*.tfrecord"

    @property
    def test(self) -> Path:
        return self.folder / "test-*.tfrecord"

    @property
    def kept(self) -> Path:
        """The training rows once more, converted: what is taken from the second epoch on."""
        return self.folder / "train-converted"

    def facts(self) -> GeneratedFacts:
        """What is known of the rows; DataError if they were not made."""
        try:
            return read(GeneratedFacts, untrusted.read_json(self.folder / _FACTS, follow=True))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.folder}: no generated rows here: {error}") from error

    def make(self, progress: Progress) -> None:
        """Write the files, unless they are there; those that are there already are kept."""
        is_made = (self.folder / _FACTS).is_file()
        # Rows made before they were also kept converted are used as they are where nothing can be
        # written beside them.
        if is_made and (is_converted(self.kept) or not _can_write(self.folder)):
            return
        with held(self.folder, progress):
            if not (self.folder / _FACTS).is_file():
                _Making(self, progress).run()
            convert(self.train, self.kept, progress=progress, data_dir=self.data_dir)


def _can_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@final
@dataclass(frozen=True, kw_only=True)
class GeneratedFacts:
    """What is known of generated rows."""

    planted_auc: float
    """Of the model that labelled them, on the test rows: nothing learnt can be better."""
    planted_loss: float
    positive_share: float


@final
class _Making:
    """Makes the files of one folder."""

    def __init__(self, wanted: Generated, progress: Progress) -> None:
        self._wanted = wanted
        self._progress = progress
        self._planted = shape.Planted(wanted.num_features, wanted.seed)
        self._num_done = 0

    def run(self) -> None:
        """Write training rows, test rows, and last what is known of them."""
        wanted = self._wanted
        for path, count, seeds in self._files("train", wanted.num_rows, _TRAIN):
            if path.exists():
                self._tell(count)
            else:
                self._write(path, count, seeds)
        tested = [self._write(*each) for each in self._files("test", wanted.num_test, _TEST)]
        scores, labels = (np.concatenate(each) for each in zip(*tested, strict=True))
        facts = GeneratedFacts(
            planted_auc=area_under_curve(scores, labels),
            planted_loss=float((np.logaddexp(0, scores) - labels * scores).mean()),
            positive_share=float(labels.mean()),
        )
        self._put(wanted.folder / _FACTS, json.dumps(asdict(facts)).encode())

    def _files(self, name: str, num_rows: int, split: int) -> list[tuple[Path, int, list[int]]]:
        """The files of a split: where, how many rows, and the seeds that they are drawn from."""
        return [
            (
                self._wanted.folder / f"{name}-{number:05d}.tfrecord",
                min(_ROWS_A_FILE, num_rows - first),
                [self._wanted.seed, split, number],
            )
            for number, first in enumerate(range(0, num_rows, _ROWS_A_FILE))
        ]

    def _write(self, path: Path, num_rows: int, seeds: list[int]) -> tuple[Array, Array]:
        """Write a file; returns the scores and labels of its rows."""
        sizes = [
            ([*seeds, first], min(_ROWS_AT_ONCE, num_rows - first))
            for first in range(0, num_rows, _ROWS_AT_ONCE)
        ]
        scores, labels = [], []
        beside = path.with_suffix(".new")
        with beside.open("wb") as file:
            for part in prepared(self._draw, sizes, threads=2, ahead=4):
                file.write(part.records)
                scores.append(part.scores)
                labels.append(part.labels)
                self._tell(len(part.labels))
        beside.replace(path)
        return np.concatenate(scores), np.concatenate(labels)

    def _draw(self, wanted: tuple[list[int], int]) -> _Part:
        seeds, num_rows = wanted
        generator = np.random.default_rng(seeds)
        numbers = self._planted.numbers(shape.drawn(num_rows, generator))
        scores = self._planted.scores(numbers)
        labels = self._planted.labels(scores, generator)
        return _Part(b"".join(framed(labels, numbers)), scores, labels)

    def _put(self, path: Path, content: bytes) -> None:
        written_beside(path, lambda file: file.write(content))

    def _tell(self, num_rows: int) -> None:
        self._num_done += num_rows
        total = self._wanted.num_rows + self._wanted.num_test
        self._progress(f"generating rows into {self._wanted.folder}", self._num_done, total)


class _Part(NamedTuple):
    """Rows on their way into a file."""

    records: bytes
    scores: Array
    labels: Array
