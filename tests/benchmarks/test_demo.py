"""The benchmark of `make demo` reads conclusions as a user does."""

import demo


def place(side, number, reason=None):
    ranked = reason is None
    return {
        "side": side,
        "place": number if ranked else None,
        "ranked": ranked,
        "reason": reason,
        "num_workers": 1 if side == "single" else 2,
        "speed_up": None if side == "single" else {"median": 2.1, "low": 1.9, "high": 2.2},
    }


def test_the_order_and_the_largest_speed_up_are_read_from_the_json():
    ranking = [
        place("ring", 1),
        place("single", 2),
        place("ps-sync", 2),
        place("ps-async", None, "short"),
    ]
    tried = demo.judged(ranking, ["ring is fastest.", "Rows: 1.50 times for ring."])
    assert tried.order == ("ring", "ps-sync = single")
    assert tried.largest_gain == 0.75
    assert tried.largest_measured == 1.05
    assert tried.reasons == ("ps-async: short",)


def test_one_ranked_side_is_no_ranking():
    tried = demo.judged([place("single", 1), place("ring", None, "host-limited")], ["No side."])
    assert tried.order == ()
    assert tried.largest_gain == 0
    assert tried.largest_measured == 0


def test_the_demo_compares_on_links_that_the_host_can_carry():
    options = demo.demo_options()
    assert options[0] == "lenet-mnist"
    assert options[options.index("--cluster") + 1] == "emulated"


def test_a_speed_up_above_the_workers_is_a_miss(capsys):
    tries = [
        demo.Try(
            order=("a", "b"), reasons=(), largest_gain=gain, largest_measured=gain, conclusion=""
        )
        for gain in (0.9, 1.2)
    ]
    assert demo.say(tries, is_quiet=False) == 1
    assert demo.say(tries[:1], is_quiet=True) == 0
    assert "the same one in 1 of 1: a > b" in capsys.readouterr().out
