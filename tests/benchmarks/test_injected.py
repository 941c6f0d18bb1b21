"""Bottlenecks that are put there: every case has a name of its own, by which its run is kept."""

from collections import Counter

from injected import cases


def test_no_two_cases_share_a_name():
    names = Counter(each.name for each in cases())
    assert max(names.values()) == 1


def test_runs_of_several_servers_are_as_valid_as_others():
    several = [each for each in cases() if each.options.get("servers")]
    assert {each.kind for each in several} == {"compute", "link", "straggler", "server"}
    for each in several:
        assert each.spec().strategy.num_servers >= 2
