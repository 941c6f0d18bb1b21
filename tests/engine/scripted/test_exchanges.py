"""What is said of gradients that cannot be exchanged, and of changes that servers would undo."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from paceline.engine.scripted.exchanges import Averaged, ThroughServers
from paceline.engine.scripted.lost_changes import LostChanges
from paceline.engine.scripted.objects import Objects
from paceline.engine.scripted.sync import values_of
from paceline.errors import LoopError
from paceline.training.carried import trained_by
from paceline.training.finite import Refusals


class Member:
    """Of a worker that is alone: what it pushes comes to nothing, and nothing is averaged."""

    global_steps = 0
    is_held = False

    def begin(self, *, last):
        pass

    def exchange(self, *, last):
        return last

    def take_waited_ns(self):
        return 0

    def settle(self):
        pass


PLACE = SimpleNamespace(roster=SimpleNamespace(worker_numbers=[0, 1]), rank=0, refusals=Refusals())


def joined(exchange):
    exchange.join(PLACE, lambda place: Member())
    return exchange


def through_servers(model, optimizer):
    objects = Objects.sorted((model, optimizer))
    trained = trained_by([model], [optimizer], all_of_modules=False)
    return joined(ThroughServers(trained, lambda length: [(0, length)], objects.names))


def sparse():
    model = nn.Embedding(7, 2, sparse=True)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


SAID = r"of shape \(7, 2\) is sparse, .*leave out sparse=True .*single or solo"


def test_a_sparse_gradient_cannot_be_averaged():
    model, optimizer = sparse()
    trained = trained_by([model], [optimizer], all_of_modules=True)
    exchange = joined(Averaged(trained, through_autograd=False, backward=torch.autograd.backward))
    model(torch.tensor([1, 3])).sum().backward()
    with pytest.raises(LoopError, match=SAID):
        exchange.after_backward(last=False)


def test_a_sparse_gradient_cannot_be_pushed():
    model, optimizer = sparse()
    exchange = through_servers(model, optimizer)
    model(torch.tensor([1, 3])).sum().backward()
    with pytest.raises(LoopError, match=SAID):
        exchange.before_step(0, last=False)


def stepped(exchange, model):
    model(torch.ones(1, 3)).sum().backward()
    exchange.before_step(0, last=False)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))


@pytest.fixture
def exchange(model):
    return through_servers(model, torch.optim.SGD(model.parameters(), lr=0.1))


LOST = "parameter '1.weight' was changed by something else than optimizer.step"


def test_a_change_that_servers_would_undo_is_named(model, exchange):
    stepped(exchange, model)
    with torch.no_grad():
        model[1].weight.clamp_(-0.01, 0.01)
    with pytest.raises(LoopError, match=LOST):
        stepped(exchange, model)


def test_what_is_loaded_after_wrap_is_named_before_the_first_push(model, exchange):
    weights = {name: each + 1 if name == "1.weight" else each for name, each in state(model)}
    model.load_state_dict(weights)
    with pytest.raises(LoopError, match=LOST):
        stepped(exchange, model)


def state(model):
    return model.state_dict().items()


def test_what_is_changed_back_and_what_an_evaluation_brings_is_no_change(model, exchange):
    weights = {name: each.clone() for name, each in state(model)}
    model.load_state_dict({name: each + 1 for name, each in weights.items()})
    model.load_state_dict(weights)
    stepped(exchange, model)
    exchange.replica.parameters.add_(1)  # as a pull does
    exchange.settle()
    stepped(exchange, model)


def test_parameters_that_change_while_a_worker_is_held_are_no_change(model, exchange):
    exchange.member.is_held = True
    stepped(exchange, model)
    exchange.replica.parameters.add_(1)  # a server writes them when it lets the worker go
    stepped(exchange, model)


def test_values_are_compared_in_the_first_steps_then_now_and_then(monkeypatch):
    clock = SimpleNamespace(now=0)

    def tick():
        clock.now += 1000
        return clock.now

    monkeypatch.setattr("paceline.engine.scripted.lost_changes.perf_counter_ns", tick)
    values = torch.zeros(4)
    changes = LostChanges([("w", values)])

    def is_noticed():
        changes.note()
        values.add_(1)
        try:
            changes.check()
        except LoopError:
            return True
        return False

    assert [is_noticed() for _ in range(6)] == [True, True, True, False, False, False]
    clock.now += 1_000_000
    assert [is_noticed() for _ in range(3)] == [True, False, False]


def test_parameters_that_only_an_optimizer_has_are_taken_from_the_first_worker_too():
    model, alone = nn.Linear(2, 1), nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([*model.parameters(), alone], lr=0.1)
    found = values_of(Objects.sorted((model, optimizer)), [])
    assert [each.shape for each in found] == [(1, 2), (1,), (3,)]
    assert len(values_of(Objects.sorted((optimizer, [])), [])) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([nn.Linear(1, 1)], "a list with a Linear in it: give each by itself"),
        ({"train": torch.utils.data.DataLoader([1])}, "a dict with a DataLoader in it"),
        (nn.Parameter(torch.zeros(1)), "given a Parameter; it takes"),
    ],
)
def test_what_is_no_loader_is_not_taken_for_one(given, said):
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(LoopError, match=said):
        Objects.sorted((given, optimizer))
