"""Our schedules are torch's, and say what is wrong with them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from paceline.errors import SpecError
from paceline.training.schedules import SCHEDULES, Constant, Cosine, Schedule, Step

LR = 0.3


def warm(peer, num_steps: int) -> lr_scheduler.LRScheduler:
    """torch's linear warm-up, which counts from 0, before another of its schedulers."""
    rising = lr_scheduler.LambdaLR(peer, lambda step: min(1.0, (step + 1) / num_steps))
    return lr_scheduler.SequentialLR(
        peer,
        [rising, lr_scheduler.CosineAnnealingLR(peer, T_max=30, eta_min=0.1 * LR)],
        milestones=[num_steps],
    )


PAIRS = {
    "constant": (Constant(), lambda peer: lr_scheduler.ConstantLR(peer, factor=1.0)),
    "every": (
        Step(every_steps=7, factor=0.5),
        lambda peer: lr_scheduler.StepLR(peer, step_size=7, gamma=0.5),
    ),
    "at": (
        Step(at_steps=(10, 25)),
        lambda peer: lr_scheduler.MultiStepLR(peer, milestones=[10, 25], gamma=0.1),
    ),
    "cosine": (Cosine(end_step=40), lambda peer: lr_scheduler.CosineAnnealingLR(peer, T_max=40)),
    "warm-up": (
        Constant(warmup_steps=8),
        lambda peer: lr_scheduler.LinearLR(peer, start_factor=1 / 8, total_iters=7),
    ),
    "warm-up, cosine": (
        Cosine(warmup_steps=10, end_step=40, end_factor=0.1),
        lambda peer: warm(peer, 10),
    ),
}


@pytest.mark.filterwarnings("ignore:.*epoch parameter:UserWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_forty_steps_are_those_of_torch(name: str):
    schedule, torchs = PAIRS[name]
    peer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler = torchs(peer)
    for number in range(1, 41):
        expected = peer.param_groups[0]["lr"]
        assert LR * schedule.part(number) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        peer.step()
        scheduler.step()


def test_a_cosine_stays_where_it_ended():
    schedule = Cosine(end_step=10, end_factor=0.25)
    assert schedule.part(11) == schedule.part(10**9) == 0.25


def test_drops_and_warm_up_multiply():
    schedule = Step(warmup_steps=4, at_steps=(2,), factor=0.5)
    assert [schedule.part(number) for number in (1, 2, 3, 4, 5)] == [0.25, 0.5, 0.375, 0.5, 0.5]


counts = st.integers(1, 10**6)
schedules = st.one_of(
    st.builds(Constant, warmup_steps=counts),
    st.builds(Step, warmup_steps=counts, every_steps=counts),
    st.builds(Step, at_steps=st.lists(counts, min_size=1).map(tuple)),
    st.builds(Cosine, warmup_steps=st.integers(0, 99), end_step=st.integers(100, 10**6)),
)


@given(schedule=schedules, number=counts)
def test_no_learning_rate_is_negative_or_larger_than_what_was_asked_for(
    schedule: Schedule, number: int
):
    assert 0 <= schedule.part(number) <= 1


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ({"name": "sine"}, "", "sine"),
        ({"name": "constant", "end_step": 3}, ".end_step", 3),
        ({"name": "constant", "warmup_steps": -1}, ".warmup_steps", -1),
        ({"name": "step"}, ".every_steps", None),
        ({"name": "step", "every_steps": 0}, ".every_steps", 0),
        ({"name": "step", "every_steps": 3, "at_steps": [4]}, ".at_steps", (4,)),
        ({"name": "step", "at_steps": 4}, ".at_steps", 4),
        ({"name": "step", "every_steps": 3, "factor": 1}, ".factor", 1),
        ({"name": "cosine"}, ".end_step", None),
        ({"name": "cosine", "end_step": 5, "warmup_steps": 5}, ".end_step", 5),
        ({"name": "cosine", "end_step": 5, "end_factor": 1.5}, ".end_factor", 1.5),
    ],
)
def test_a_wrong_value_is_told(table: dict[str, object], field: str, value: object):
    with pytest.raises(SpecError) as caught:
        SCHEDULES.build(table)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"optimizer.schedule{field}", value)
