"""Generated rows have the shape that is published of Criteo's, and the planted model its AUC."""

import math

import numpy as np
import pytest

from paceline.workloads.data.sparse import criteo, features, shape
from paceline.workloads.ranking import area_under_curve

NUM_CRITEO_ROWS = 45_840_617
# Values of the large columns that at least ten of Criteo's rows have.
SEEN_TEN_TIMES = {3: 193_947, 4: 138_799, 10: 42_645, 12: 192_771, 16: 181_073, 21: 189_655}
SEEN_TEN_TIMES |= {7: 11_969, 11: 5_177, 15: 11_421, 18: 4_653, 24: 59_695}


@pytest.fixture(scope="module")
def fields() -> shape.DrawnFields:
    return shape.drawn(40_000, np.random.default_rng(5))


def test_there_are_as_many_values_as_published():
    assert sum(shape.CARDINALITIES) == 33_762_577
    assert len(shape.CARDINALITIES) == len(shape.EXPONENTS) == 26


@pytest.mark.parametrize("column", SEEN_TEN_TIMES)
def test_as_many_values_would_be_seen_ten_times_as_were(column: int):
    count, exponent = shape.CARDINALITIES[column - 1], shape.EXPONENTS[column - 1]
    power = 1 - exponent
    ranks = np.unique(np.geomspace(1, count, 4000).astype(np.int64))
    chance = (ranks**power - (ranks + 1.0) ** power) / (1 - (count + 1.0) ** power)
    expected = NUM_CRITEO_ROWS * (1 - shape.EMPTY_PERCENT[12 + column] / 100) * chance
    below_ten = sum(np.exp(n * np.log(expected) - expected - math.lgamma(n + 1)) for n in range(10))
    seen = np.trapezoid(1 - below_ten, ranks) + 0.5
    assert seen == pytest.approx(SEEN_TEN_TIMES[column], rel=0.08)


def test_the_commonest_values_of_c1_are_as_common_as_published(fields):
    _, counts = np.unique(fields.categories[:, 0], return_counts=True)
    shares = np.sort(counts)[::-1].cumsum() / len(fields.categories)
    assert shares[[0, 1, 4, 9]] == pytest.approx([0.5011, 0.6679, 0.8334, 0.9091], abs=0.01)


def test_values_stay_within_what_is_published(fields):
    for column, count in enumerate(shape.CARDINALITIES):
        assert len(np.unique(fields.categories[:, column])) <= count
    buckets = features.buckets(fields.integers)
    for column, count in enumerate(shape.NUM_BUCKETS):
        assert len(np.unique(buckets[:, column])) <= count
    empty = fields.is_empty.mean(0) * 100
    assert empty == pytest.approx(np.array(shape.EMPTY_PERCENT), abs=1.0)


def test_the_text_of_rows_is_read_as_the_same_features(fields):
    labels = np.arange(200) % 2
    part = shape.DrawnFields(fields.integers[:200], fields.categories[:200], fields.is_empty[:200])
    found = criteo.parse(part.text(labels))
    assert not found.bad
    assert (found.keys == part.keys()).all()
    assert (found.labels == labels).all()


@pytest.mark.parametrize(("seed", "num_features"), [(0, 33_762_578), (1, 1_000_000)])
def test_the_planted_model_is_as_good_as_it_should_be(seed, num_features, fields):
    planted = shape.Planted(num_features, seed)
    numbers = planted.numbers(fields)
    scores = planted.scores(numbers)
    labels = planted.labels(scores, np.random.default_rng(1))
    assert labels.mean() == pytest.approx(0.256, abs=0.015)
    assert 0.75 < area_under_curve(scores, labels) < 0.82
    weights = planted.weights(np.arange(39 * 2000).reshape(2000, 39))
    assert (weights != 0).mean() > 0.999
    assert weights.std(0) == pytest.approx(shape.SPREADS, rel=0.1)
    assert np.abs(weights.mean(0)).max() < 0.03


def test_another_seed_is_another_model(monkeypatch):
    monkeypatch.setattr(shape, "_NUM_TRIED", 100)
    numbers = np.arange(39 * 100).reshape(100, 39)
    one, other = (shape.Planted(5000, seed).weights(numbers) for seed in (0, 1))
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1
