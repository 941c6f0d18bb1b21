from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.verdict import judge, suggestions_for
from paceline.verdict.resources import links_of, resources_of
from tests.verdict.made import TRAIN_S, node, result, server, worker

RATE = 100e6


def linked(index: int, *seats: str, share: float, rate: float = RATE):
    """A node whose link is full for this part of the time, each way."""
    count = int(share * rate * TRAIN_S / 8)
    return node(
        index,
        *seats,
        net_sent_bytes=count,
        net_received_bytes=count,
        link_bits_per_s=rate,
        link_sent_bits_per_s=rate,
        link_received_bits_per_s=rate,
    )


def network_bound(strategy: str = "ps", **fields):
    """Four workers, one server beside the first, whose link is full."""
    synchronous = {"times_last": 25, "late_s": 0.0, "wait_s": 0.0}
    exchange = {"exchange_s": 8.0, "compute_s": 2.0}
    alone = {"apply_s": 0.0} if strategy == "ring" else {}
    workers = [worker(rank, **exchange, **synchronous, **alone) for rank in range(4)]
    servers = () if strategy == "ring" else (server(apply_s=0.0),)
    first = ("worker0", "server0") if servers else ("worker0",)
    others = 0.8 if strategy == "ring" else 0.26
    nodes = (
        linked(0, *first, share=0.8),
        *(linked(rank, f"worker{rank}", share=others) for rank in (1, 2, 3)),
    )
    return result(*workers, servers=servers, nodes=nodes, **fields)


def slowed(made, times: int = 10, *, hidden_s: float):
    """The same with longer steps: of 1 s, a fifth of it computing, if ten times as long."""
    workers = tuple(
        replace(
            each,
            compute_s=times * each.compute_s,
            exchange_s=times * each.exchange_s,
            hidden_s=hidden_s,
        )
        for each in made.workers
    )
    return replace(made, workers=workers)


def gains(made) -> dict[str, float]:
    return {each.name: each.gain for each in suggestions_for(made)}


# A model that servers do not cut.
ONE_CHUNK = 200_000


class TestLink:
    def test_the_fullest_link_is_named(self):
        verdict = judge(network_bound())
        assert (verdict.kind, verdict.where) == ("link", "node0")
        assert "node0's link is 80 % full" in verdict.sentence
        assert verdict.expected_gain == pytest.approx(max(gains(network_bound()).values()), 1e-3)

    def test_a_slow_link_of_a_worker_is_named_though_it_carries_little(self):
        made = network_bound()
        slow = linked(2, "worker2", share=0.9, rate=RATE / 10)
        nodes = (linked(0, "worker0", "server0", share=0.2), made.nodes[1], slow, made.nodes[3])
        assert judge(replace(made, nodes=nodes)).where == "node2"

    def test_a_link_that_is_hardly_used_is_not_to_blame(self):
        made = network_bound()
        idle = [linked(index, *each.seats, share=0.01) for index, each in enumerate(made.nodes)]
        assert judge(replace(made, nodes=tuple(idle))).kind == "balanced"

    def test_under_dilation_a_server_is_never_named(self):
        busy = (server(cpu_s=9.0, apply_s=0.0),)
        made = network_bound()
        assert judge(replace(made, servers=busy)).kind == "server"
        assert judge(replace(made, servers=busy, dilation=4.0)).kind == "link"


class TestGains:
    def test_two_servers_share_what_one_link_carried(self):
        # Into node0: three workers' gradients; then half of that, and half a model of answers.
        assert gains(network_bound(model_bytes=ONE_CHUNK))["servers"] == pytest.approx(
            10 / (10 - 8 * (1 - 2 / 3))
        )

    def test_answers_of_one_of_two_servers_meet_gradients_for_the_other(self):
        made = network_bound(model_bytes=ONE_CHUNK)
        first = linked(0, "worker0", "server0", share=0.4)
        turns = replace(made, nodes=(first, *made.nodes[1:]))
        assert gains(turns)["servers"] == pytest.approx(10 / (10 - 8 / 3))
        assert "40 % full each way, in turn" in judge(turns).sentence

    def test_twice_the_rate_is_half_the_time(self):
        assert gains(network_bound("ring"))["link"] == pytest.approx(10 / 6)

    def test_a_faster_link_shortens_only_what_bytes_take_on_it(self):
        made = network_bound("ring")
        nodes = [linked(rank, f"worker{rank}", share=0.6) for rank in range(4)]
        assert gains(replace(made, nodes=tuple(nodes)))["link"] == pytest.approx(10 / 7)

    def test_one_faster_link_helps_until_the_next_is_full(self):
        made = network_bound()
        others = [linked(rank, f"worker{rank}", share=0.6) for rank in (1, 2, 3)]
        limited = replace(made, nodes=(made.nodes[0], *others))
        assert gains(limited)["link"] == pytest.approx(10 / (10 - 8 * 0.25))

    def test_an_exchange_costs_the_same_for_twice_the_rows(self):
        assert gains(network_bound())["batch"] == pytest.approx(20 / 12)

    def test_a_ring_is_offered_only_where_the_result_is_the_same(self):
        made = network_bound(model_bytes=833_333)
        # 1.5 models at 100 Mbit/s are 100 ms in place of 80: no gain, so nothing is said.
        assert "ring" not in gains(made)
        assert "ring" in gains(replace(made, model_bytes=200_000))
        free = tuple(replace(each, times_last=None) for each in made.workers)
        assert "ring" not in gains(replace(made, model_bytes=200_000, workers=free))
        assert "ring" in gains(replace(made, model_bytes=200_000, workers=free, in_step=True))
        # With backup workers an update does without some gradients, though it knows who was last.
        assert "ring" not in gains(replace(made, model_bytes=200_000, in_step=False))

    def test_a_ring_over_far_nodes_brings_less_or_nothing(self):
        # Of a step of 100 ms, 80 are exchange; six hops of 5 ms are 30 of them, of 50 ms 300.
        made = network_bound(model_bytes=200_000)
        near, far = (gains(replace(made, latency_s=each)) for each in (0.0, 0.005))
        assert near["ring"] > 1.3 * far["ring"] > 1.3
        assert "ring" not in gains(replace(made, latency_s=0.05))

    def test_a_server_beside_every_worker_is_offered_in_the_place_of_a_ring(self):
        # A step of 1 s, 0.2 of it computing; six models of 2 MB crossed the server's link.
        made = network_bound(model_bytes=2_000_000)
        found = {each.name: each for each in suggestions_for(slowed(made, hidden_s=1.0))}
        assert "ring" not in found
        assert "strategy.servers=auto" in found["servers"].advice
        assert found["servers"].gain > 1.1

    def test_spread_servers_hide_their_exchange_only_where_the_run_overlapped(self):
        # Steps of 10 s, 2 of them computing, two thirds of that back-propagation.
        made = network_bound(model_bytes=40_000_000)
        hides, waits = (gains(slowed(made, 100, hidden_s=each)) for each in (1.0, 0.0))
        # Three halves of a model each way.
        crosses_s = 1.5 * 40_000_000 * 8 / RATE * 1514 / 1448
        assert 10 / waits["servers"] == pytest.approx(2 + crosses_s, rel=0.02)
        hidden_s = 10 / waits["servers"] - 10 / hides["servers"]
        assert hidden_s == pytest.approx(2 * 2 / 3, rel=0.2)
        assert "ring" in waits  # which overlaps
        assert "ring" not in hides

    def test_servers_are_spread_where_a_model_is_cut(self):
        made = slowed(network_bound(model_bytes=2_000_000), hidden_s=1.0)
        # All of it is one chunk: no closed form is known for what is sent when all is computed.
        whole = suggestions_for(slowed(network_bound(model_bytes=ONE_CHUNK), hidden_s=1.0))
        for suggestions, servers in ((suggestions_for(made), "auto"), (whole, "2")):
            (advice,) = (each.advice for each in suggestions if each.name == "servers")
            assert f"servers={servers}" in advice

    def test_rows_are_offered_where_a_sparse_model_moves_whole(self):
        made = network_bound(touched_rows=100, row_bytes=4)
        whole = tuple(replace(each, sent_bytes=100_000_000) for each in made.workers)
        few = tuple(replace(each, sent_bytes=100_000) for each in made.workers)
        assert gains(replace(made, workers=whole))["sparse"] > 4
        assert "sparse" not in gains(replace(made, workers=few))

    def test_nothing_is_promised_for_a_full_machine(self):
        workers = [worker(rank, compute_s=9.0, ready_s=5.0) for rank in range(4)]
        verdict = judge(result(*workers, host_cpu_percent=99.0))
        assert verdict.expected_gain is None

    def test_loading_is_hidden_behind_the_rest_at_most(self):
        made = result(worker(0, load_s=8.0, compute_s=2.0))
        assert gains(made)["input"] == pytest.approx(10 / 8)


class TestResources:
    def test_links_threads_cores_and_the_host_are_told(self):
        made = network_bound()
        labels = [each.label for each in resources_of(made)]
        assert labels[:2] == ["node0 link out", "node0 link in"]
        assert "server0 thread" in labels
        assert labels[-1] == "host, all cores"

    def test_headers_are_part_of_what_fills_a_link(self):
        one = replace(linked(0, share=0.5), packets_sent=int(0.1 * RATE * TRAIN_S / 8 / 66))
        (link,) = links_of(result(worker(0), nodes=(one,)))
        assert link.sent == pytest.approx(0.6, abs=1e-3)
        assert link.received == pytest.approx(0.5, abs=1e-3)

    def test_a_node_without_a_link_has_none(self):
        assert links_of(result(worker(0))) == []
