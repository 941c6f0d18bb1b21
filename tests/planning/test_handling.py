"""What handling costs is measured through the libraries that servers use."""

from paceline.planning.handling import handling_costs
from paceline.training.optim import Adam, Sgd


def test_every_cost_is_a_small_positive_time():
    costs = handling_costs(Sgd(lr=0.1))
    assert 0 < costs.message_s < 0.05
    assert 0 < costs.add_s_per_byte < 1e-6
    assert 0 < costs.apply_s_per_byte < 1e-6
    assert 0 <= costs.copy_s_per_byte < 1e-6


def test_an_optimizer_with_states_costs_more():
    plain, states = handling_costs(Sgd(lr=0.1)), handling_costs(Adam(lr=0.1))
    assert states.apply_s_per_byte > plain.apply_s_per_byte


def test_a_processor_that_is_slowed_costs_in_proportion():
    costs = handling_costs(Sgd(lr=0.1))
    assert costs.scaled(0.5).message_s == costs.message_s / 2
