"""How the driver has all workers settle before worker 0 evaluates or saves."""

import pytest

from paceline.comm.words import Evaluate, Evaluated, Save, Settle
from paceline.engine.oddities import Odd
from paceline.engine.settling import Settling

WORKERS = ("worker0", "worker1", "worker2")


@pytest.fixture
def said() -> list:
    return []


@pytest.fixture
def settling(said) -> Settling:
    return Settling(lambda name, word: said.append((name, word)))


def test_worker_0_is_told_only_when_all_have_settled(settling, said):
    settling.before(Evaluate(), WORKERS)
    assert said == [(name, Settle(is_looked_at=name == "worker0")) for name in WORKERS]
    said.clear()
    for name in ("worker2", "worker0"):
        settling.take(name)
    assert said == []
    assert settling.working == {"worker1"}
    settling.take("worker1")
    assert said == [("worker0", Evaluate())]
    assert settling.working == {"worker0"}


def test_an_answer_that_nobody_waits_for_is_odd_and_changes_nothing(settling, said):
    settling.before(Save(), WORKERS)
    for name in WORKERS:
        settling.take(name)
    with pytest.raises(Odd, match="it said 'settled' out of turn"):
        settling.take("worker1")
    assert said.count(("worker0", Save())) == 1


def test_everybody_is_asked_each_time(settling, said):
    for word in (Save(), Evaluate()):
        settling.before(word, WORKERS)
        for name in WORKERS:
            settling.take(name)
    assert [name for name, word in said if isinstance(word, Settle)] == [*WORKERS, *WORKERS]
    assert said[-1] == ("worker0", Evaluate())


def test_who_is_gone_before_it_has_settled_is_not_waited_for(settling, said):
    settling.before(Evaluate(), WORKERS)
    settling.take("worker0")
    settling.take("worker2")
    settling.forget("worker1")
    assert said[-1] == ("worker0", Evaluate())


FOR_WORKER_1 = [
    ("worker1", Settle(is_looked_at=True)),
    ("worker2", Settle(is_looked_at=False)),
]


def test_where_the_first_is_gone_all_settle_again_for_the_next_one(settling, said):
    settling.before(Save(), WORKERS)
    for name in WORKERS:
        settling.take(name)
    said.clear()
    settling.forget("worker0")
    assert said == FOR_WORKER_1
    settling.take("worker1")
    settling.take("worker2")
    assert said[-1] == ("worker1", Save())
    assert settling.working == {"worker1"}
    settling.end()
    settling.forget("worker1")
    assert said[-1] == ("worker1", Save())


def test_a_first_that_is_gone_while_others_settle_has_them_settle_again_afterwards(settling, said):
    settling.before(Save(), WORKERS)
    settling.take("worker1")
    said.clear()
    settling.forget("worker0")
    assert said == []  # the third is still at it
    settling.take("worker2")
    assert said == FOR_WORKER_1
    settling.take("worker2")
    settling.take("worker1")
    assert said[-1] == ("worker1", Save())


def test_it_is_in_vain_where_all_who_rested_are_gone(settling, said):
    settling.before(Save(), WORKERS)
    for name in WORKERS:
        assert not settling.is_in_vain
        settling.forget(name)
    assert settling.is_in_vain
    assert ("worker0", Save()) not in said


@pytest.fixture
def sharing(settling, said) -> Settling:
    """Two workers that rest to share an evaluation, and one that has ended; all have settled."""
    for name in ("worker1", "worker2"):
        settling.rests(name, shares=True)
    settling.before(Evaluate(), WORKERS)
    return settling


def settle_twice(settling):
    for _ in range(2):
        for name in WORKERS:
            settling.take(name)


def test_who_shares_an_evaluation_is_looked_at_when_all_have_settled_once(sharing, said):
    among = ["worker1", "worker2"]
    assert said == [(name, Settle(is_looked_at=False, among=among)) for name in WORKERS]
    said.clear()
    for name in WORKERS:
        assert said == []
        sharing.take(name)
    assert said == [(name, Settle(is_looked_at=True, among=among)) for name in WORKERS]


def test_a_shared_evaluation_is_done_when_all_shares_are(sharing, said):
    settle_twice(sharing)
    assert sharing.working == {"worker1", "worker2"}
    sharing.evaluated("worker2", Evaluated({"loss": 1.0}, 3))
    assert sharing.working == {"worker1"}
    assert sharing.found is None
    sharing.evaluated("worker1", Evaluated({"loss": 2.0}, 1))
    assert sharing.found == {"loss": 1.25}
    assert not [word for _, word in said if isinstance(word, Evaluate)]


def test_a_quick_worker_may_be_done_before_another_has_settled(sharing):
    for name in (*WORKERS, "worker1"):
        sharing.take(name)
    sharing.evaluated("worker1", Evaluated({"loss": 2.0}, 1))
    with pytest.raises(Odd, match="'evaluated' out of turn"):
        sharing.evaluated("worker2", Evaluated({}, 1))  # it has not settled
    with pytest.raises(Odd, match="'evaluated' out of turn"):
        sharing.evaluated("worker1", Evaluated({}, 1))


@pytest.mark.parametrize("settled", [False, True])
def test_the_share_of_a_worker_that_is_lost_is_not_waited_for(sharing, settled):
    if settled:
        settle_twice(sharing)
    sharing.forget("worker1")
    if not settled:
        for _ in range(2):
            for name in ("worker0", "worker2"):
                sharing.take(name)
    assert not sharing.is_in_vain
    sharing.evaluated("worker2", Evaluated({"loss": 1.0}, 3))
    assert sharing.found == {"loss": 1.0}


def test_a_shared_evaluation_without_anybody_left_is_in_vain(sharing):
    settle_twice(sharing)
    for name in ("worker1", "worker2"):
        sharing.forget(name)
    assert sharing.is_in_vain


def test_the_next_evaluation_is_not_shared_for_that(sharing, said):
    settle_twice(sharing)
    for name in ("worker1", "worker2"):
        sharing.evaluated(name, Evaluated({}, 1))
    sharing.end()
    said.clear()
    sharing.before(Save(), WORKERS)
    assert said == [(name, Settle(is_looked_at=name == "worker0")) for name in WORKERS]
