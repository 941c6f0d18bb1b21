"""A plan: what it says, and what it refuses."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import paceline
from paceline.api.verifying import device_of, to_verify
from paceline.arithmetic.costs import NO_COSTS
from paceline.compute.rates import device_rates
from paceline.errors import SpecError
from paceline.planning import checked as record
from paceline.planning.advice import recommended, sentences
from paceline.planning.asking import asked, basis_of
from paceline.planning.candidates import candidates
from paceline.planning.checked import Checked
from paceline.planning.emulation import predicted_steps_per_s
from paceline.planning.map import winners
from paceline.planning.plan import Plan, make_plan, network_of
from paceline.planning.scenario import Scenario

FIGURES = {"batch": 32, "rows_per_s": 100.0, "model_bytes": "100MB"}


def plan_of(**fields: object) -> Plan:
    asked_for = asked({**FIGURES, **fields})
    return make_plan(asked_for.scenario, basis_of(asked_for, None, NO_COSTS))


def test_every_strategy_number_of_servers_and_placement_is_tried():
    found = {each.label for each in candidates(Scenario(), 4)}
    servers = ("1 server", "1 server apart", "a server beside each")
    assert found == {"ring", "ddp"} | {
        f"{name}, {how}" for name in ("ps-sync", "ps-async") for how in servers
    }
    assert [each.label for each in candidates(Scenario(), 1)] == ["single"]


def test_a_server_apart_is_one_of_the_machines():
    apart = [each for each in candidates(Scenario(), 4) if each.label.endswith("apart")]
    assert {each.num_workers for each in apart} == {3}
    assert {each.num_machines for each in apart} == {4}


def test_one_machine_is_what_all_is_compared_with():
    plan = plan_of(machines=[1, 2], link="1000gbit")
    (alone,) = plan.at(1)
    assert alone.samples_per_s == pytest.approx(100.0)
    assert plan.at(2)[0].speed_up == pytest.approx(2.0, rel=0.01)
    assert plan.at(2)[0].efficiency == pytest.approx(1.0, rel=0.01)


def test_fast_links_are_a_tie_and_slow_ones_are_not():
    tie, *_ = sentences(plan_of(machines=[4], link="1000gbit", strategies=["ring", "ps-sync"]))
    assert "a tie, within 3 %, with ps-sync (a server beside each)" in tie
    clear, *_ = sentences(
        plan_of(machines=[8], link="1gbit", strategies=["ring", "ps-sync"], servers=[1])
    )
    assert "Use ring on 8 machines" in clear
    assert "% above the next, ps-sync (1 server" in clear


def test_asynchronous_strategies_are_never_recommended_and_it_says_why():
    plan = plan_of(machines=[4], slower={"node3": 3.0}, link="1000gbit")
    assert plan.at(4)[0].strategy == "ps-async"
    assert recommended(plan).in_step
    assert "what stale gradients do to accuracy" in list(sentences(plan))[-1]
    assert "more rows/s" in list(sentences(plan))[-1]


def test_machines_that_bring_little_are_not_recommended():
    plan = plan_of(machines=[1, 2, 4, 8, 16], link="100mbit", strategies=["ring"])
    assert recommended(plan).machines < 16
    assert any("would bring" in each for each in sentences(plan))


def test_time_and_cost_follow_from_rows_and_price():
    plan = plan_of(machines=[1, 4], samples=360_000, price=2.0, link="1000gbit")
    (alone,) = plan.at(1)
    assert alone.seconds == pytest.approx(3600.0)
    assert alone.cost == pytest.approx(2.0)
    assert plan.at(4)[0].cost == pytest.approx(2.0, rel=0.01)


def test_layers_one_by_one_and_by_size_alone_agree_where_links_are_fast():
    layers = [{"forward_s": 0.1, "backward_s": 0.22, "bytes": "100MB"}]
    one = asked({"batch": 32, "layers": layers, "machines": [4], "link": "1000gbit"})
    plan = make_plan(one.scenario, basis_of(one, None, NO_COSTS))
    assert plan.at(4)[0].samples_per_s == pytest.approx(400.0, rel=0.02)


def test_several_workers_per_machine_share_its_link():
    alone = plan_of(machines=[4], strategies=["ps-sync"], link="10gbit")
    four = plan_of(machines=[4], strategies=["ps-sync"], link="10gbit", workers_per_node=4)
    assert four.at(4)[0].workers == 16
    assert four.at(4)[0].efficiency < alone.at(4)[0].efficiency


def test_a_rack_is_slower_than_none():
    free = plan_of(machines=[8], strategies=["ps-sync"], servers=[1], link="10gbit")
    racks = plan_of(
        machines=[8], strategies=["ps-sync"], servers=[1], link="10gbit", uplink="2gbit", rack=2
    )
    assert racks.at(8)[0].samples_per_s < 0.8 * free.at(8)[0].samples_per_s


def test_several_servers_apart_are_machines_of_their_own():
    scenario = Scenario(servers=(2,), strategies=("ps-sync",))
    (apart,) = [each for each in candidates(scenario, 6) if each.label.endswith("apart")]
    assert apart.label == "ps-sync, 2 servers apart"
    assert (apart.num_nodes, apart.exchange.num_servers) == (4, 2)
    assert not [each for each in candidates(scenario, 2) if each.label.endswith("apart")]


def test_numbers_of_machines_with_too_few_for_the_servers_are_left_out():
    plan = plan_of(machines=[2, 8], strategies=["ps-sync"], servers=[8])
    assert recommended(plan).machines == 8
    assert any("Nothing is planned for 2 machines" in each for each in sentences(plan))


def test_more_servers_than_any_number_of_machines_are_refused():
    with pytest.raises(SpecError, match="more servers than any number of machines has: 4"):
        asked({**FIGURES, "machines": [2, 4], "strategies": ["ps-sync"], "servers": [8]})


def test_asynchronous_strategies_alone_are_planned_and_it_says_that_they_are():
    plan = plan_of(machines=[4], strategies=["ps-async"])
    assert "No strategy in step was asked for" in list(sentences(plan))[-1]


def test_a_price_alone_gives_the_cost_of_a_million_rows():
    plan = plan_of(machines=[1], price=3.6)
    (alone,) = plan.at(1)
    assert alone.cost is None
    assert alone.cost_per_million == pytest.approx(10.0)


def test_a_field_of_the_workload_leaves_the_workload_as_it_is():
    """`--set workload.bytes=...` has no name in it: the one that was given stays."""
    planned = paceline.plan(
        "synthetic", rows_per_s=100.0, batch=8, machines=[1], costs={}, workload={"bytes": "8MB"}
    )
    assert planned.plan.basis.step.num_bytes == 8_000_000


def test_the_map_knows_of_racks():
    """With an uplink that carries nothing to speak of, ring is best on the fastest links too."""
    fields = {"machines": [16], "strategies": ["ring", "ps-sync"], "servers": [16]}
    racks = plan_of(**fields, uplink="100mbit", rack=8)
    free, bound = (
        [row["rows_per_s"] for row in winners(each, 16)] for each in (plan_of(**fields), racks)
    )
    assert max(bound) < 0.5 * max(free)


def test_a_script_is_planned_as_it_runs():
    """Its gradients leave after its backward pass, whatever the strategy could do."""
    scenario = Scenario(strategies=("ring", "ps-sync", "ps-async"), strategy={"overlap": True})
    ways = list(candidates(scenario, 4, is_script=True))
    assert len(ways) > 4
    assert not any(each.exchange.overlap for each in ways)
    assert all(each.exchange.overlap for each in candidates(scenario, 4))


def test_what_cannot_be_verified_is_told_with_everything_else_that_is_wrong():
    with pytest.raises(SpecError) as caught:
        paceline.plan("lenet-mnist", verify=True, machines="0,1", uplink="1gbit", rack=2, link="0")
    told = [(each.field, each.reason) for each in caught.value.problems]
    assert {"machines", "link"} <= {field for field, _ in told}
    reasons = " ".join(reason for field, reason in told if field == "--verify")
    assert "no racks" in reasons
    assert "from 2 to 16" in reasons


def test_a_script_is_not_verified(tmp_path: Path):
    (tmp_path / "train.py").write_text("raise SystemExit('was started')\n")
    with pytest.raises(SpecError, match="a script's own loop cannot be replayed"):
        paceline.plan(tmp_path / "train.py", verify=True, machines=[2])


def test_the_recommended_one_is_among_those_that_are_verified():
    """Asynchronous strategies may be quicker; what is recommended and its runner-up come first."""
    plan = plan_of(machines=[1, 8], slower={"node7": 3.0}, link="1000gbit")
    assert not plan.at(8)[0].in_step
    machines, labels = to_verify(plan)
    in_step = [row.label for row in plan.at(machines) if row.in_step]
    assert labels[:2] == in_step[:2]
    assert labels[0] == recommended(plan).label or machines != recommended(plan).machines
    assert len(labels) == 3


def test_stragglers_are_emulated_as_they_are_planned(tmp_path: Path):
    varied = {"step_factors": [0.5, 1.0, 1.0, 3.0], "slower": {"node2": 2.0}}
    asked_for = asked({"workload": "lenet-mnist", "batch": 8, "rows_per_s": 99.0, **varied})
    made = make_plan(asked_for.scenario, basis_of(asked_for, None, NO_COSTS))
    (apart,) = (
        each for each in candidates(made.scenario, 4) if each.label == "ps-sync, 1 server apart"
    )
    assert asked_for.spec is not None
    device = device_of(asked_for.spec, apart, made, tmp_path)
    rates = device_rates(device).of("lenet-mnist", device)
    assert rates.varies
    assert rates.step_factors == (0.5, 1.0, 1.0, 3.0)
    assert rates.worker_factors == (1.0, 1.0, 2.0)  # the server's node has no worker


def test_stragglers_are_part_of_what_is_predicted_of_an_emulated_run():
    asked_for = asked({**FIGURES, "machines": [4], "step_factors": [0.5, 1.0, 1.0, 3.0]})
    basis = basis_of(asked_for, None, NO_COSTS)
    (ring,) = (each for each in candidates(asked_for.scenario, 4) if each.label == "ring")
    predict = partial(predicted_steps_per_s, ring, dilation=1.0, costs=NO_COSTS)
    network, even = network_of(asked_for.scenario), replace(basis.step, factors=())
    alike = predict(even, network)
    assert predict(basis.step, network) < alike
    assert predict(even, network, slowness=(1.0, 2.0)) < alike


def test_ten_thousand_machines_are_planned():
    plan = plan_of(machines=[10_000], strategies=["ring", "ps-sync", "ps-async"])
    assert all(row.samples_per_s > 0 for row in plan.rows)


def test_everything_that_is_wrong_is_told_at_once():
    with pytest.raises(SpecError) as caught:
        paceline.plan(
            "lenet-mnist",
            machines="1,0",
            link="0",
            device="abacus",
            strategies="ring,star",
            strategy={"bucket": 1},
            uplink="1gbit",
        )
    fields = {each.field for each in caught.value.problems}
    assert fields >= {"machines", "link", "device", "strategy", "strategy.bucket"}


SPARSE = {"name": "synthetic", "features": 100_000}


def test_what_a_sparse_model_cannot_be_asked_is_told_with_the_rest():
    with pytest.raises(SpecError) as caught:
        paceline.plan(workload=SPARSE, rows_per_s=10, target="accuracy>=0.9")
    told = {each.field: each.reason for each in caught.value.problems}
    assert "sparse model is run to see" in told["rows_per_s"]
    assert "--from" in told["--target"]
    with pytest.raises(SpecError, match="machines"):
        paceline.plan(workload=SPARSE, machines="0")


def test_a_sparse_model_is_run_for_some_steps_and_its_data_says_the_rows():
    """39 features of each of 8 rows, out of so many that hardly two are the same."""
    planned = paceline.plan(workload=SPARSE, machines=[4], link="10mbit", batch=8)
    step = planned.plan.basis.step
    assert step.rows is not None
    assert step.rows.num_rows == pytest.approx(8 * 39, abs=2)
    assert step.rows.table_bytes == pytest.approx(4 * 100_000, rel=0.01)
    assert planned.plan.basis.costs.apply_s_per_byte > 0
    assert planned.plan.basis.costs.message_s > 0
    rates = {each.label: each.samples_per_s for each in planned.plan.rows}
    assert rates["ps-sync, 1 server"] > 5 * rates["ring"]  # which moves the whole table
    assert any("rows of the table" in each for each in planned.plan.basis.notes)
    assert planned.table()["model_bytes"] == step.rows.table_bytes + step.num_bytes


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"rack": 4}, "uplink"),
        ({"links": {"node9": "1gbit"}, "machines": [4]}, "links.node9"),
        ({"slower": {"here": 2.0}}, "slower.here"),
        ({"strategies": ["solo"]}, "strategies"),
        ({"machines": []}, "machines"),
        ({"rows_per_s": None}, "rows_per_s"),
        ({"device": "cpu"}, "device"),
        ({"latency": "soon"}, "latency"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], wrong: str):
    with pytest.raises(SpecError) as caught:
        asked({key: value for key, value in {**FIGURES, **fields}.items() if value is not None})
    assert wrong in {each.field for each in caught.value.problems}


def test_a_file_has_the_fields_of_a_plan_and_options_stand_over_it(tmp_path: Path):
    file = tmp_path / "published.toml"
    file.write_text('batch = 32\nrows_per_s = 100\nmodel_bytes = "100MB"\nmachines = [1, 2]\n')
    planned = paceline.plan(file, machines=[4], link="10gbit")
    assert {row.machines for row in planned.plan.rows} == {4}
    table = json.loads(json.dumps(planned.table()))
    assert table["recommended"]["machines"] == 4
    assert table["checked"]["sentence"] in str(planned)


def test_a_devices_rates_need_no_calibration():
    planned = paceline.plan(
        "alexnet-cifar10", device="replay:k80", machines=[1], batch=32, costs={}
    )
    assert planned.recommended.samples_per_s == pytest.approx(656.0, rel=0.001)
    assert planned.plan.basis.step.num_bytes == pytest.approx(233 * 2**20, rel=0.01)


def test_nothing_checked_is_said_and_figures_only_where_there_are_some(monkeypatch):
    assert "Not checked" in Checked().sentence
    some = Checked(
        cases=120,
        median_error=0.04,
        worst_error=0.11,
        nine_in_ten=0.08,
        choices=30,
        choices_right=29,
        most_nodes=16,
        made_on="2026-11-18",
        left_out=7,
    )
    for part in ("4.0 %", "120", "11.0 %", "29 of 30", "7 more cases do not count"):
        assert part in some.sentence
    assert some.scope == ""  # of one written before that was kept
    known = replace(
        some,
        least_nodes=2,
        least_link=1e8,
        most_link=1e10,
        most_latency=0.005,
        labels=("ring", "ps-sync, 1 server"),
    )
    for part in ("2 to 16 nodes", "100 Mbit/s to 10 Gbit/s", "5 ms", "ring and ps-sync (1 server)"):
        assert part in known.scope
    assert "beyond 16 nodes" in some.beyond(17)
    assert some.beyond(16) == ""
    monkeypatch.setattr(record, "FILE", "missing.toml")
    assert record.checked() == Checked()
