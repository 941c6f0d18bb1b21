"""Our optimizers are torch's, whole, in stretches, and row by row."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from paceline.errors import SpecError
from paceline.training.optim import OPTIMIZERS, Adagrad, Adam, AdamW, Optimizer, Sgd, Update
from paceline.training.schedules import Constant, Cosine, Schedule, Step

NUM_STEPS = 20
NUM_VALUES = 1000

PAIRS = {
    "sgd": (Sgd(lr=0.1), torch.optim.SGD, {}),
    "sgd decay": (Sgd(lr=0.1, weight_decay=0.02), torch.optim.SGD, {}),
    "momentum": (Sgd(lr=0.1, momentum=0.9), torch.optim.SGD, {"momentum": 0.9}),
    "momentum decay": (
        Sgd(lr=0.1, momentum=0.9, weight_decay=0.02),
        torch.optim.SGD,
        {"momentum": 0.9},
    ),
    "nesterov": (
        Sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.02),
        torch.optim.SGD,
        {"momentum": 0.9, "nesterov": True},
    ),
    "adam": (Adam(lr=0.01), torch.optim.Adam, {}),
    "adam decay": (
        Adam(lr=0.01, weight_decay=0.02, beta1=0.8, beta2=0.95, eps=1e-6),
        torch.optim.Adam,
        {"betas": (0.8, 0.95), "eps": 1e-6},
    ),
    "adamw": (AdamW(lr=0.01), torch.optim.AdamW, {}),
    "adagrad": (Adagrad(lr=0.1), torch.optim.Adagrad, {}),
    "adagrad decay": (Adagrad(lr=0.1, weight_decay=0.02), torch.optim.Adagrad, {}),
}
ours = pytest.mark.parametrize("optimizer", [pair[0] for pair in PAIRS.values()], ids=list(PAIRS))


def start_and_gradients(dtype: torch.dtype, *shape: int) -> tuple[Tensor, list[Tensor]]:
    generator = torch.Generator().manual_seed(5)
    made = [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(NUM_STEPS + 1)]
    return made[0], made[1:]


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    # The scale of the parameters is 1; float32 allows a few roundings a step.
    [(torch.float64, 1e-12), (torch.float32, 2e-6)],
    ids=["float64", "float32"],
)
@pytest.mark.parametrize("name", PAIRS)
def test_twenty_updates_are_those_of_torch(name: str, dtype: torch.dtype, tolerance: float):
    optimizer, torchs, arguments = PAIRS[name]
    start, gradients = start_and_gradients(dtype, NUM_VALUES)
    parameter = torch.nn.Parameter(start.clone())
    peer = torchs([parameter], lr=optimizer.lr, weight_decay=optimizer.weight_decay, **arguments)
    update = Update(optimizer, start.clone())
    for number, gradient in enumerate(gradients, 1):
        parameter.grad = gradient.clone()
        peer.step()
        update.apply(gradient.clone(), number)
        torch.testing.assert_close(update.parameters, parameter.data, rtol=0, atol=tolerance)
    assert not torch.equal(update.parameters, start)


@ours
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_chunk_by_chunk_is_the_whole_to_the_bit(optimizer: Optimizer, dtype: torch.dtype):
    start, gradients = start_and_gradients(dtype, NUM_VALUES)
    whole, parts = Update(optimizer, start.clone()), Update(optimizer, start.clone())
    chunks = list(itertools.pairwise([0, 1, 14, 333, 334, 999, NUM_VALUES]))
    for number, gradient in enumerate(gradients, 1):
        whole.apply(gradient.clone(), number)
        for first, last in reversed(chunks):
            parts.apply(gradient[first:last].clone(), number, first)
    assert torch.equal(whole.parameters, parts.parameters)
    assert all(map(torch.equal, whole.states, parts.states))


SCHEDULES = {
    Constant(warmup_steps=5): lambda peer: torch.optim.lr_scheduler.LinearLR(peer, 1 / 5, 1, 4),
    Step(every_steps=3): lambda peer: torch.optim.lr_scheduler.StepLR(peer, 3),
    Cosine(end_step=15): lambda peer: torch.optim.lr_scheduler.CosineAnnealingLR(peer, 15),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_scheduled_updates_are_those_of_torch(name: str, schedule: Schedule):
    optimizer, torchs, arguments = PAIRS[name]
    start, gradients = start_and_gradients(torch.float64, NUM_VALUES)
    parameter = torch.nn.Parameter(start.clone())
    peer = torchs([parameter], lr=optimizer.lr, weight_decay=optimizer.weight_decay, **arguments)
    scheduler = SCHEDULES[schedule](peer)
    update = Update(replace(optimizer, schedule=schedule), start.clone())
    for number, gradient in enumerate(gradients[:15], 1):
        parameter.grad = gradient.clone()
        peer.step()
        scheduler.step()
        update.apply(gradient.clone(), number)
        torch.testing.assert_close(update.parameters, parameter.data, rtol=0, atol=1e-12)


@ours
def test_chunks_follow_the_schedule_too(optimizer: Optimizer):
    start, gradients = start_and_gradients(torch.float64, 50, 3)
    scheduled = replace(optimizer, schedule=Step(every_steps=4, warmup_steps=3))
    whole = Update(scheduled, start.clone())
    flat = Update(scheduled, start.clone().flatten())
    for number, gradient in enumerate(gradients, 1):
        whole.apply(gradient.clone(), number)
        for first, last in itertools.pairwise([0, 7, 150]):
            flat.apply(gradient.flatten()[first:last].clone(), number, first)
    assert torch.equal(whole.parameters.flatten(), flat.parameters)


@ours
def test_linear_scaling_is_times_the_workers(optimizer: Optimizer):
    assert optimizer.for_workers(4) == optimizer
    scaled = replace(optimizer, lr_scaling="linear").for_workers(4)
    assert scaled == replace(optimizer, lr=4 * optimizer.lr)
    assert scaled.for_workers(4) == scaled


@ours
def test_a_chunk_leaves_the_rest_alone(optimizer: Optimizer):
    start, (gradient, *_) = start_and_gradients(torch.float32, NUM_VALUES)
    update = Update(optimizer, start.clone())
    update.apply(gradient[:10].clone(), 1, start=100)
    assert torch.equal(update.parameters[:100], start[:100])
    assert torch.equal(update.parameters[110:], start[110:])
    assert not torch.equal(update.parameters[100:110], start[100:110])
    assert all(not state[:100].any() and not state[110:].any() for state in update.states)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("sgd", "lr", 0),
        ("sgd", "lr", "fast"),
        ("sgd", "momentum", 1.0),
        ("sgd", "weight_decay", -1),
        ("sgd", "lr_scaling", "square"),
        ("sgd", "nesterov", True),  # torch refuses it without a momentum too
        ("adam", "beta2", 1),
        ("adam", "eps", 0),
        ("adagrad", "momentum", 0.9),
    ],
)
def test_a_wrong_value_is_told(name: str, field: str, value: object):
    with pytest.raises(SpecError) as caught:
        OPTIMIZERS.build({"name": name, field: value})
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (f"optimizer.{field}", value)
