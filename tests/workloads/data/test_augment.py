"""What is drawn for a picture follows from seed and position, and from nothing else."""

import numpy as np
import pytest

from paceline.workloads.data.augment import Changes, changes, crops, mirror, random_bits


def test_a_position_draws_the_same_in_any_batch():
    whole = random_bits(7, 1000, 64)
    parts = [random_bits(7, 1000 + start, 16) for start in (0, 16, 32, 48)]
    assert (whole == np.concatenate(parts)).all()


def test_seeds_and_positions_draw_differently():
    drawn = [random_bits(seed, 0, 10_000) for seed in (0, 1, 2, 2**31 - 1)]
    assert len(np.unique(np.concatenate(drawn))) == 40_000


def test_all_that_can_be_drawn_is_drawn_about_equally_often():
    drawn = changes(3, 0, 81_000)
    places = (drawn.down * 9).astype(int) * 9 + (drawn.right * 9).astype(int)
    counts = np.bincount(places, minlength=81)
    assert len(counts) == 81
    assert counts.min() > 850
    assert counts.max() < 1150
    assert drawn.mirrored.mean() == pytest.approx(0.5, abs=0.01)


def by_hand(picture, padding: int, down: int, right: int, mirrored: bool):
    padded = np.pad(picture, ((0, 0), (padding, padding), (padding, padding)))
    height, width = picture.shape[1:]
    cut = padded[:, down : down + height, right : right + width]
    return cut[:, :, ::-1] if mirrored else cut


def test_pictures_are_cut_and_mirrored_as_drawn():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 6), dtype=np.uint8)
    drawn = changes(1, 0, 50)
    before = pixels.copy()
    for index, picture in enumerate(crops(pixels, 2, drawn)):
        down, right = (int(each[index] * 5) for each in (drawn.down, drawn.right))
        expected = by_hand(pixels[index], 2, down, right, drawn.mirrored[index])
        assert (picture == expected).all()
    assert (pixels == before).all()


def test_the_middle_is_the_picture_itself():
    pixels = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    half = np.full(2, 0.5)
    still = Changes(half, half, np.zeros(2, dtype=bool))
    assert (crops(pixels, 4, still) == pixels).all()
    assert (mirror(pixels.copy(), still) == pixels).all()
