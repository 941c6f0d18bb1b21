from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from paceline.outcome.results import Result
from paceline.verdict import judge, suggestions_for
from paceline.verdict.thresholds import Thresholds
from tests.paths import ROOT
from tests.verdict.made import node, result, server, worker


def named(verdict) -> tuple[str, str | None]:
    return verdict.kind, verdict.where


class TestKinds:
    def test_compute(self):
        verdict = judge(result(*(worker(rank, compute_s=9.0) for rank in range(2))))
        assert verdict.kind == "compute"

    def test_what_a_rank_applies_itself_is_computing(self):
        one = worker(0, compute_s=3.0, exchange_s=6.0)
        assert judge(result(one)).kind == "compute"

    def test_input(self):
        verdict = judge(result(worker(0, load_s=7.0, compute_s=2.0)))
        assert named(verdict) == ("input", "worker0")

    def test_one_worker_that_loads_slowly_holds_up_all(self):
        slow = worker(1, load_s=8.0, compute_s=1.0, exchange_s=1.0, wait_s=0.0)
        fast = worker(0, load_s=1.0, compute_s=1.0, exchange_s=8.0, wait_s=7.0)
        assert named(judge(result(fast, slow))) == ("input", "worker1")

    def test_a_straggler_is_named_though_the_others_only_wait(self):
        fast = [worker(rank, compute_s=1.0, exchange_s=9.0, wait_s=8.0) for rank in (0, 2)]
        slow = worker(1, compute_s=9.0, exchange_s=1.0, wait_s=0.0)
        verdict = judge(result(fast[0], slow, fast[1]))
        assert named(verdict) == ("straggler", "worker1")
        assert "worker1" in verdict.sentence
        assert verdict.evidence["others_wait"] == pytest.approx(0.8)

    def test_workers_that_wait_for_each_other_in_turn_have_no_straggler(self):
        waits = (3.0, 2.9, 2.8)
        workers = [
            worker(rank, compute_s=9.9 - each, exchange_s=each, wait_s=each)
            for rank, each in enumerate(waits)
        ]
        assert judge(result(*workers)).kind == "compute"

    def test_where_nobody_waits_a_straggler_is_the_one_with_few_steps(self):
        fast = [worker(rank, compute_s=9.0) for rank in (0, 1)]
        slow = worker(2, compute_s=9.0, worker_steps=20)
        verdict = judge(result(*fast, slow, servers=(server(updates=220),)))
        assert named(verdict) == ("straggler", "worker2")

    def test_a_busy_server(self):
        workers = [worker(rank, compute_s=1.0, exchange_s=9.0) for rank in range(3)]
        busy = server(cpu_s=3.0, ready_s=6.0, updates=300)
        assert named(judge(result(*workers, servers=(busy,)))) == ("server", "server0")

    def test_a_full_machine(self):
        workers = [worker(rank, compute_s=9.0, ready_s=5.0) for rank in range(4)]
        verdict = judge(result(*workers, host_cpu_percent=99.0))
        assert named(verdict) == ("host-limited", "host")
        assert "fewer workers" in verdict.suggestion
        assert verdict.expected_gain is None

    def test_a_machine_that_others_fill_does_not_hide_a_straggler(self):
        fast = worker(0, compute_s=1.0, exchange_s=9.0, wait_s=8.0, ready_s=3.0)
        slow = worker(1, compute_s=9.0, exchange_s=1.0, ready_s=3.0)
        assert judge(result(fast, slow, host_cpu_percent=100.0)).kind == "straggler"

    def test_balanced(self):
        one = worker(0, load_s=3.0, compute_s=3.5, exchange_s=3.0)
        verdict = judge(result(one, servers=(server(),)))
        assert named(verdict) == ("balanced", None)

    def test_an_exchange_within_a_machine_that_fills_nothing_is_not_the_machines_fault(self):
        workers = [worker(rank, compute_s=1.0, exchange_s=9.0, apply_s=1.0) for rank in (0, 1)]
        verdict = judge(result(*workers))
        assert named(verdict) == ("exchange", None)
        assert "through this machine's memory" in verdict.sentence

    def test_an_exchange_between_nodes_that_nobody_measured_is_not_through_memory(self):
        workers = [worker(rank, compute_s=1.0, exchange_s=9.0, apply_s=1.0) for rank in (0, 1)]
        verdict = judge(result(*workers, nodes=(node(0, "worker0"), node(1, "worker1"))))
        assert named(verdict) == ("exchange", None)
        assert "between nodes" in verdict.sentence
        assert "how full their links were is not known" in verdict.sentence

    @pytest.mark.parametrize(("own_percent", "kind"), [(90.0, "host-limited"), (190.0, "compute")])
    def test_a_machine_that_other_programs_fill(self, own_percent, kind):
        nodes = (node(0, "worker0", cpu_percent_mean=own_percent),)
        busy = {"host_cpu_percent": 99.0, "host_cores": 2}
        made = result(worker(0, compute_s=9.0), nodes=nodes, **busy)
        verdict = judge(made)
        assert verdict.kind == kind
        if kind == "host-limited":
            assert verdict.evidence["other_programs"] == pytest.approx(0.54)

    def test_other_programs_are_named_before_the_worker_they_make_late(self):
        fast = worker(0, compute_s=1.0, exchange_s=9.0, wait_s=8.0)
        slow = worker(1, compute_s=9.0, exchange_s=1.0)
        nodes = (node(0, "worker0", "worker1", cpu_percent_mean=80.0),)
        made = result(fast, slow, nodes=nodes, host_cpu_percent=100.0, host_cores=2)
        assert judge(made).kind == "host-limited"

    def test_a_full_machine_is_told_alike_by_the_result_and_its_verdict(self):
        workers = [worker(rank, compute_s=9.0, ready_s=5.0) for rank in range(4)]
        made = result(*workers, host_cpu_percent=99.0)
        sealed = made.judged(judge(made))
        assert sealed.host_limited
        assert sealed.full_label == "real compute, host-limited"
        # Judged again, from what was stored, it is no replayed device that was late.
        assert judge(Result.from_table(sealed.table())) == sealed.verdict

    def test_a_stored_result_that_contradicts_its_verdict_is_read_as_the_verdict_says(self):
        workers = [worker(rank, compute_s=9.0, ready_s=5.0) for rank in range(4)]
        made = result(*workers, host_cpu_percent=99.0)
        table = replace(made, verdict=judge(made)).table()
        assert table["host_limited"] is False
        assert Result.from_table(table).host_limited


class TestTooLittle:
    def test_few_steps_say_nothing(self):
        assert judge(result(worker(0, compute_s=9.0, worker_steps=2))) is None

    def test_a_run_without_rows_says_nothing(self):
        assert judge(result(worker(0, compute_s=None))) is None

    def test_a_worker_that_never_stepped_is_no_error(self):
        never = worker(1, load_s=None, compute_s=None, exchange_s=None, worker_steps=0)
        assert judge(result(worker(0, compute_s=9.0), never)) is None

    @pytest.mark.parametrize("status", ["failed", "interrupted"])
    def test_a_run_that_did_not_finish_says_nothing(self, status):
        made = result(worker(0, compute_s=9.0))
        assert judge(made) is not None
        assert judge(replace(made, status=status, reason="worker0: no")) is None
        assert suggestions_for(replace(made, status=status)) == []

    def test_a_run_that_never_trained(self):
        assert judge(result(train_s=None)) is None


class TestStored:
    def test_a_verdict_is_read_back_as_it_was(self):
        made = result(worker(0, compute_s=9.0))
        sealed = replace(made, verdict=judge(made))
        assert Result.from_table(sealed.table()) == sealed

    def test_results_of_earlier_versions_have_none(self):
        table = result(worker(0)).table()
        del table["verdict"]
        assert Result.from_table(table).verdict is None

    def test_who_sits_where_is_read_off_the_nodes(self):
        workers = [worker(rank, compute_s=9.0) for rank in range(2)]
        nodes = (node(0, "worker0"), node(1, "worker1"))
        assert judge(result(*workers, nodes=nodes)).where in {"worker0", "worker1"}


class TestThresholds:
    def test_the_guide_tells_them_as_they_are(self):
        told = (ROOT / "docs" / "guide" / "verdict.md").read_text()
        for each in dataclasses.fields(Thresholds):
            assert f"| `{each.name}` | {each.default:g} |" in told
