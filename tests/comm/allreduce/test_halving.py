"""Recursive halving and doubling: who exchanges what with whom, without a process."""

import pytest

from paceline.comm.allreduce.choosing import halving_s
from paceline.comm.allreduce.hops import Hop, hops_of, largest_power, num_hops

every_number = pytest.mark.parametrize("num_ranks", range(2, 34))


def carried_out(num_ranks: int) -> tuple[list[list[set[int]]], int]:
    """Do all hops, each when its message is there; gives what each rank has of every chunk.

    Of a chunk a rank has the set of ranks whose values are added up in it. Also gives after how
    many messages, one waiting for the other, the last rank has all.
    """
    power = largest_power(num_ranks)
    has = [[{rank} for _ in range(power)] for rank in range(num_ranks)]
    plans = [hops_of(rank, num_ranks) for rank in range(num_ranks)]
    done, sent, depth = [0] * num_ranks, [False] * num_ranks, [0] * num_ranks
    mail: dict[tuple[int, int], list[tuple[int, dict[int, set[int]]]]] = {}
    while any(done[rank] < len(plans[rank]) for rank in range(num_ranks)):
        before = list(done)
        for rank, plan in enumerate(plans):
            if done[rank] == len(plan):
                continue
            hop = plan[done[rank]]
            if not sent[rank]:
                content = {chunk: set(has[rank][chunk]) for chunk in hop.sends}
                if content:
                    mail.setdefault((rank, hop.partner), []).append((depth[rank], content))
                sent[rank] = True
            if hop.takes:
                waiting = mail.get((hop.partner, rank), [])
                if not waiting:
                    continue
                its_depth, content = waiting.pop(0)
                depth[rank] = max(depth[rank], its_depth + 1)
                take(has[rank], hop, content)
            done[rank], sent[rank] = done[rank] + 1, False
        assert done != before or any(sent), "everybody waits"
    assert not any(mail.values()), "a message that nobody took"
    return has, max(depth)


def take(has: list[set[int]], hop: Hop, content: dict[int, set[int]]) -> None:
    assert set(content) == set(hop.takes)
    for chunk, ranks in content.items():
        if hop.adds:
            assert not has[chunk] & ranks, "a value would be added twice"
            has[chunk] |= ranks
        else:
            has[chunk] = ranks


@every_number
def test_every_rank_gets_every_value_once(num_ranks: int):
    has, depth = carried_out(num_ranks)
    everyone = set(range(num_ranks))
    assert all(chunk == everyone for chunks in has for chunk in chunks)
    assert depth == num_hops(num_ranks)


@every_number
def test_no_more_hops_than_a_ring_has(num_ranks: int):
    assert num_hops(num_ranks) <= 2 * (num_ranks - 1)


@pytest.mark.parametrize("num_ranks", [2, 4, 8, 16])
def test_a_power_of_two_sends_what_a_ring_sends(num_ranks: int):
    for rank in range(num_ranks):
        sent = sum(len(hop.sends) for hop in hops_of(rank, num_ranks))
        assert sent / num_ranks == 2 * (num_ranks - 1) / num_ranks


def test_sixteen_ranks_far_apart_are_better_off_with_halving():
    assert halving_s(30e-3, 31e-3, 16) == pytest.approx(9e-3)


def test_where_bytes_take_the_time_a_ring_is_kept():
    assert halving_s(1e-3, 100e-3, 6) > 100e-3


def test_of_two_or_three_ranks_nothing_is_gained():
    assert halving_s(2e-3, 2e-3, 2) == pytest.approx(2e-3)
    assert halving_s(4e-3, 4e-3, 3) == pytest.approx(4e-3)
