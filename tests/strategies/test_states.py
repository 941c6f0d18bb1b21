"""States of the parts that strategies are made of."""

import pytest

from paceline.errors import StateError
from paceline.strategies.all_reduce.buckets import Bucket, SendOrder
from paceline.strategies.all_reduce.slots import Slots
from paceline.strategies.all_reduce.timing import Timing
from paceline.strategies.base import Member
from paceline.strategies.parameter_server.rules import Bounded, Free
from paceline.strategies.parameter_server.server_parameters import Tally
from paceline.testing.states import StateConformance
from paceline.training.state import copied, whole_numbers


class TestBounded(StateConformance):
    """One of three workers runs ahead until it has to wait, and then the others do."""

    def make(self):
        return Bounded(range(3), staleness=1)

    def advance(self, thing):
        clocks, waiting = thing.state()["clocks"], thing.state()["waiting"].tolist()
        thing.complete(max(rank for rank in range(3) if rank not in waiting))
        thing.released()
        if clocks["1"] == 2:
            thing.leave(0)

    def test_a_worker_that_waits_is_released_after_a_load(self):
        before, after = Bounded(range(2), staleness=0), Bounded(range(2), staleness=0)
        assert not before.complete(1)
        after.load(copied(before.state()))
        assert after.released() == []
        assert after.complete(0)
        assert after.released() == [1]

    def test_the_clocks_of_other_workers_do_not_fit(self):
        state = copied(Bounded(range(4), staleness=1).state())
        with pytest.raises(StateError, match=r"clocks = \[0, 1, 2, 3\]: expected \[0, 1, 2\]"):
            self.make().load(state)
        state = {"clocks": {"0": 1}, "waiting": whole_numbers([2])}
        with pytest.raises(StateError, match=r"waiting = \[2\]: expected some of \[0\]"):
            self.make().load(state)


class TestFree(StateConformance):
    def make(self):
        return Free()

    def advance(self, thing):
        thing.complete(0)


class TestTally(StateConformance):
    def make(self):
        return Tally()

    def advance(self, thing):
        thing.updates += 1
        thing.apply_ns += 10
        thing.last[thing.updates % 3] += 1
        thing.wait_ns[1] += 5


class TestSlots(StateConformance):
    def make(self):
        slots = Slots("worker1", ["worker0", "worker1"])
        slots.lie_in(whole_numbers([0] * 8).double())
        return slots

    def advance(self, thing):
        thing.write(last=False)
        thing.read(0.25 + thing.late_s)


class TestTiming(StateConformance):
    def make(self):
        return Timing()

    def advance(self, thing):
        for bucket in (1, 0):
            thing.note(bucket, 64, 100, 130)

    def test_sums_of_other_buckets_do_not_fit(self):
        timing = self.make()
        self.advance(timing)
        state = copied(timing.state())
        del state["run_ns"]["1"]
        with pytest.raises(StateError, match=r"buckets = .*not the same ones of each sum"):
            self.make().load(state)


class TestSendOrder(StateConformance):
    def make(self):
        return SendOrder([Bucket(0, 1), Bucket(1, 2), Bucket(2, 3)])

    def advance(self, thing):
        first, *others = thing.order
        thing.order = [*others, first]

    def test_it_is_new_before_it_is_loaded(self):
        assert self.advanced(2).order != self.make().order

    def test_an_order_of_other_buckets_does_not_fit(self):
        with pytest.raises(StateError, match=r"order = \[0, 1, 3\]: not an order of 3 buckets"):
            self.make().load({"order": whole_numbers([0, 1, 3])})


class _Stateless(Member):
    def exchange(self, *, last):
        return last


def test_a_member_that_has_no_state_says_so():
    with pytest.raises(StateError, match=r"_Stateless: has no state\(\), so it cannot be saved"):
        _Stateless().state()
    with pytest.raises(StateError, match=r"_Stateless: has no load\(\), so it cannot be restored"):
        _Stateless().load({})
