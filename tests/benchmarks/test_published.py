"""Published scaling tables: predicted from device rates and links alone, not far off."""

from statistics import median

import published


def test_other_systems_are_predicted_from_what_they_publish():
    found = list(published.published())
    ours = [each for each in found if each.table == "TensorFlow 2017"]
    assert len(ours) == 15
    assert median(abs(each.error) for each in ours) < 0.05
    assert all(-0.05 < each.error < 0.2 for each in found)


def test_every_figure_of_the_study_has_a_row_of_its_own():
    rows = published.rows_of(published.STUDY)
    assert len({tuple(each.values()) for each in rows}) == len(rows) > 90
    assert {each["strategy"] for each in rows} == {"ring", "ps-sync", "ps-async"}


def test_speed_ups_at_2_gbit_are_those_of_the_study():
    found = list(published.study("resnet50-cifar10", "2gbit"))
    assert len(found) == 17
    assert median(abs(each.error) for each in found) < 0.08
    assert all(abs(each.error) < 0.2 for each in found)
