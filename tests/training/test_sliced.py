"""torch's optimizers on slices: each of torch.optim is equal there, or refused with the reason."""

import pytest
import torch
from torch import nn

from paceline.errors import SpecError
from paceline.training.carried import lay_out, trained_by
from paceline.training.sliced import (
    ELEMENTWISE,
    Numbers,
    SlicedUpdate,
    Slices,
    check_averaged,
    check_elementwise,
    why_not_elementwise,
)

CLASSES = sorted(
    name
    for name, each in vars(torch.optim).items()
    if isinstance(each, type) and issubclass(each, torch.optim.Optimizer) and name != "Optimizer"
)
# Two groups, numbers that schedulers change, and options that servers must have too.
OPTIONS = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"amsgrad": True, "weight_decay": 0.01},
    "RMSprop": {"momentum": 0.5, "centered": True},
}


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def groups(network):
    return [
        {"params": list(network[0].parameters()), "lr": 0.02},
        {"params": list(network[2].parameters())},
    ]


def made(name, network):
    cls = getattr(torch.optim, name)
    if name == "LBFGS":
        return cls(network.parameters(), lr=0.01)
    if name == "Muon":
        return cls([each for each in network.parameters() if each.dim() == 2], lr=0.01)
    return cls(groups(network), lr=0.01, **OPTIONS.get(name, {}))


def cut_in(length):
    """Blocks that split parameters, as chunks of servers do."""
    return lambda count: [(at, min(at + length, count)) for at in range(0, count, length)]


class Servers:
    """What servers hold of a script's parameters, and how a worker pushes to them."""

    def __init__(self, network, optimizer, length=29):
        self.trained = trained_by([network], [optimizer], all_of_modules=False)
        self.numbers = Numbers([optimizer])
        self.blocks = lay_out(self.trained, cut_in(length), self.numbers.count)
        self.vector = torch.zeros(self.blocks[-1].stop, dtype=self.trained.dtype)
        for piece in self.pieces:
            values = self.trained.parameters[piece.parameter].detach().reshape(-1)
            self.vector[piece.place] = values[piece.start : piece.stop]
        slices = Slices(self.trained, self.blocks, self.numbers)
        places = {block.start: block.start for block in self.blocks}
        self.update = SlicedUpdate(slices, self.vector, places)

    @property
    def pieces(self):
        return [piece for block in self.blocks for piece in block.pieces]

    def push(self):
        gradients = torch.zeros_like(self.vector)
        for block in self.blocks:
            for group, at in block.groups.items():
                self.numbers.write(group, gradients.numpy(), at)
        for piece in self.pieces:
            gradient = self.trained.parameters[piece.parameter].grad
            gradients[piece.flag] = gradient is not None
            if gradient is not None:
                values = gradient.reshape(-1)[piece.start : piece.stop]
                gradients[piece.place] = values
        for block in reversed(self.blocks):  # in whichever order they arrive
            self.update.apply(gradients[block.start : block.stop].clone(), 1, block.start)

    def values(self, number):
        parts = [self.vector[piece.place] for piece in self.pieces if piece.parameter == number]
        return torch.cat(parts)


def backward(network, seed):
    torch.manual_seed(seed)
    network(torch.randn(4, 7, dtype=torch.float64)).square().sum().backward()


def train(name, *, without=None):
    """Step an optimizer, and push the same gradients to servers; the rate changes on the way."""
    network = model()
    optimizer = made(name, network)
    servers = Servers(network, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    for seed in range(6):
        optimizer.zero_grad()
        backward(network, seed)
        if without is not None:
            servers.trained.parameters[without].grad = None
        servers.push()
        optimizer.step()
        scheduler.step()
    return servers


@pytest.mark.parametrize("name", CLASSES)
def test_every_optimizer_of_torch_is_equal_on_slices_or_refused(name):
    reason = why_not_elementwise(getattr(torch.optim, name))
    if reason is not None:
        assert name in {"Adafactor", "LBFGS", "Muon", "SparseAdam"}
        assert "nothing says" not in reason
        return
    servers = train(name)
    for number, own in enumerate(servers.trained.parameters):
        assert (servers.values(number) - own.detach().reshape(-1)).abs().max() < 1e-12


@pytest.mark.parametrize("name", [e for e in CLASSES if e in ELEMENTWISE])
def test_servers_go_on_from_what_an_optimizer_was_loaded_with(name):
    network = model()
    optimizer = made(name, network)
    for seed in range(3):
        optimizer.zero_grad()
        backward(network, seed)
        optimizer.step()
    again = made(name, network)
    again.load_state_dict(optimizer.state_dict())
    servers = Servers(network, again)
    for seed in range(3, 6):
        again.zero_grad()
        backward(network, seed)
        servers.push()
        again.step()
    for number, own in enumerate(servers.trained.parameters):
        assert (servers.values(number) - own.detach().reshape(-1)).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("LBFGS", "single, solo"),
        ("SparseAdam", "single, solo"),
        ("Muon", "single, solo, ring, ddp"),
        ("Adafactor", "single, solo, ring, ddp"),
    ],
)
def test_a_refusal_names_the_optimizer_and_the_strategies_that_can(name, choices):
    optimizer = made(name, model())
    with pytest.raises(SpecError, match=rf"{name} cannot be applied by servers.*: {choices}\)"):
        check_elementwise([optimizer], "ps-async")
    if "ring" in choices:
        check_averaged([optimizer], "ring", 2)
    else:
        with pytest.raises(SpecError, match=rf"{name} cannot be used: .*: {choices}\)"):
            check_averaged([optimizer], "ring", 2)


def test_one_workers_loss_is_the_average_that_a_search_looks_at():
    check_averaged([made("LBFGS", model())], "ring", 1)


def test_a_class_of_ones_own_is_taken_where_it_says_so():
    class Mine(torch.optim.SGD):
        pass

    assert why_not_elementwise(Mine) is not None
    Mine.elementwise = True
    assert why_not_elementwise(Mine) is None


def test_a_parameter_without_a_gradient_has_neither_decay_nor_momentum():
    start = Servers(model(), made("AdamW", model())).values(1)
    servers = train("AdamW", without=1)
    assert torch.equal(servers.values(1), start)
    assert not torch.equal(servers.values(0), Servers(model(), made("SGD", model())).values(0))


def test_momentum_that_a_scheduler_changes_travels_too():
    network = model()
    optimizer = made("SGD", network)
    servers = Servers(network, optimizer)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
    for seed in range(6):
        optimizer.zero_grad()
        backward(network, seed)
        servers.push()
        optimizer.step()
        scheduler.step()
    for number, own in enumerate(servers.trained.parameters):
        assert (servers.values(number) - own.detach().reshape(-1)).abs().max() < 1e-12


def test_what_a_server_remembers_can_be_saved_and_loaded():
    network = model()
    optimizer = made("Adam", network)
    one = Servers(network, optimizer)
    backward(network, 0)
    one.push()
    other = Servers(network, optimizer)
    other.vector.copy_(one.vector)
    other.update.load(one.update.state())
    backward(network, 1)
    one.push()
    other.push()
    assert torch.equal(one.vector, other.vector)


@pytest.mark.parametrize("length", [12, 29, 1000])
def test_every_value_lies_in_one_place(length):
    network = model()
    servers = Servers(network, made("SGD", network), length)
    taken = [index for piece in servers.pieces for index in range(piece.at, piece.place.stop)]
    taken += [piece.flag for piece in servers.pieces]
    assert len(taken) == len(set(taken))
    for number, own in enumerate(servers.trained.parameters):
        assert torch.equal(servers.values(number), own.detach().reshape(-1))
