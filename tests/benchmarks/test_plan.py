"""The benchmark of plans: its grid stays what it is, and what does not count is counted apart."""

import json

import plan

ROW = {"nodes": 2, "link": "1gbit", "host_limited": False, "spread": 0.0}


def row(key, label, nominal, measured, **more):
    return {**ROW, "key": key, "label": label, "nominal": nominal, "measured": measured, **more}


def test_the_grid_has_every_number_of_nodes_link_and_latency():
    found = plan.grid()
    assert len({each.key for each in found}) == len(found)
    assert len(found) * len(plan.LABELS) >= 130
    assert {each.nodes for each in found} == {2, 3, 4, 6, 8, 16}
    assert {(each.nodes, each.latency) for each in found} == {
        (nodes, latency) for nodes in (2, 3, 4, 6, 8, 16) for latency in ("0", "1ms", "5ms")
    }
    for link in ("100mbit", "300mbit", "1gbit", "3gbit", "10gbit"):
        assert sum(each.link == link for each in found) >= 5
    assert sum(each.slower_link > 1 for each in found) >= 5
    assert {each.model for each in found} == {*plan.MODELS}


def test_the_best_is_named_of_situations_where_all_counted_and_where_some_did():
    whole = [row("a", label, 1.0 + n, 1.0 + n) for n, label in enumerate(plan.LABELS)]
    part = [row("b", "ring", 2.0, 1.0), row("b", "ps-async, 1 server", 1.0, 2.0)]
    assert plan.best_named(whole + part) == (1, 2)
    assert plan.best_named(whole + part, whole=True) == (1, 1)


def test_what_failed_does_not_count_and_is_run_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    failed = {**ROW, "key": "a", "label": "ring", "failed": "worker1: it broke"}
    path.write_text(json.dumps(failed) + "\n")
    assert not plan.is_counted(failed)
    assert "FAILED: worker1: it broke" in plan.line(failed)
    again = row("a", "ring", 1.0, 1.0)
    path.write_text(json.dumps(failed) + "\n" + json.dumps(again) + "\n")
    assert plan.read(path) == [again]
