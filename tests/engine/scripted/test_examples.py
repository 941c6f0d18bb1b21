"""Every example script, bare and in a run: it works, it learns, and it took two lines."""

import difflib
import re
import subprocess
import sys

import pytest

from tests.engine.scripted.scripts import EXAMPLES, assert_same_model, log_of, run_script

STRATEGIES = ("single", "solo", "ps-async", "ps-sync", "ps-ssp", "ring", "ddp")
# In the default suite each strategy and each example comes once at least.
USUAL = {
    ("mlp.py", "single"),
    ("mlp.py", "solo"),
    ("mlp.py", "ps-ssp"),
    ("mnist.py", "ps-async"),
    ("char_transformer.py", "ring"),
    ("gan.py", "ddp"),
    ("gan.py", "ps-sync"),
    ("transformers_model.py", "ring"),
}
SHORT = {
    "mlp.py": ["--epochs=4"],
    "mnist.py": ["--epochs=1", "--log-interval=5"],
    "char_transformer.py": ["--steps=31"],
    "gan.py": ["--epochs=3"],
    "transformers_model.py": ["--epochs=1"],
}
NEEDS = {"transformers_model.py": "transformers"}
CASES = [
    pytest.param(script, each, marks=() if (script, each) in USUAL else pytest.mark.thorough)
    for script in SHORT
    for each in STRATEGIES
]


def test_each_strategy_and_each_example_is_tried_by_default():
    assert {script for script, _ in USUAL} == {*SHORT}
    assert {strategy for _, strategy in USUAL} == {*STRATEGIES}


def numbers(log, word):
    return [float(each) for each in re.findall(rf"{word} (-?[\d.]+|nan|inf)", log)]


@pytest.mark.parametrize(("script", "strategy"), CASES)
def test_an_example_learns_under_every_strategy(tmp_path, script, strategy):
    pytest.importorskip(NEEDS.get(script, "torch"), reason="not installed here")
    result = run_script(tmp_path, EXAMPLES / script, *SHORT[script], strategy=strategy)
    assert result.status == "finished"
    if script == "gan.py":
        assert 0.2 < numbers(log_of(result), "radius")[-1] < 3
        return
    losses = numbers(log_of(result), "loss")
    assert losses[-1] < 0.9 * losses[0]


EXACT = {
    "mnist.py": ["--double", "--dropout=0"],
    "char_transformer.py": ["--double", "--dropout=0", "--no-amp", "--accumulate=1"],
}
CLIPPED = "--clip=0.05"
EQUAL = [
    ("mnist.py", "ring", ()),
    ("mnist.py", "ps-sync", ()),
    ("mnist.py", "ddp", ()),
    ("char_transformer.py", "ring", (CLIPPED,)),
    ("char_transformer.py", "ddp", (CLIPPED,)),
    ("char_transformer.py", "ring", ("--clip=0",)),
    ("char_transformer.py", "ps-sync", ("--clip=0",)),
    ("char_transformer.py", "ddp", ("--clip=0",)),
]
EQUAL_USUALLY = (EQUAL[1], EQUAL[3], EQUAL[4])


@pytest.mark.parametrize(
    ("script", "strategy", "more"),
    [
        pytest.param(*each, marks=() if each in EQUAL_USUALLY else pytest.mark.thorough)
        for each in EQUAL
    ],
)
def test_two_workers_equal_one_at_twice_the_batch(tmp_path, script, strategy, more):
    args = [*EXACT[script], *more]
    inline = {"cluster": "inline", "steps": 20}
    one = run_script(tmp_path, EXAMPLES / script, *args, "--batch=16", **inline)
    two = run_script(tmp_path, EXAMPLES / script, *args, "--batch=8", strategy=strategy, steps=20)
    assert one.global_steps == two.global_steps == 20
    assert_same_model(one, two)


def bare_of(script):
    """The script as it was before: without the import, and without the whole call of wrap."""
    text = (EXAMPLES / script).read_text()
    bare = re.sub(r"(?m)^import paceline\n|^ *[\w*, ]+ = paceline\.wrap\((?s:.*?)\)\n", "", text)
    assert "import paceline" not in bare
    assert "paceline." not in bare
    return bare


@pytest.mark.parametrize("script", SHORT)
def test_an_example_took_two_lines_as_the_guide_says(script):
    text = (EXAMPLES / script).read_text()
    diff = difflib.ndiff(bare_of(script).splitlines(), text.splitlines())
    changed = [each for each in diff if each[0] in "+-" and each[2:].strip()]
    assert [each[0] for each in changed] == ["+", "+"], changed
    guide = (EXAMPLES.parents[1] / "docs" / "guide" / "scripts.md").read_text()
    (row,) = [each for each in guide.splitlines() if each.startswith(f"| `{script}`")]
    assert row.endswith("| 2 | 0 |")


@pytest.mark.parametrize(
    "script", ["mlp.py", *(pytest.param(e, marks=pytest.mark.thorough) for e in SHORT)]
)
def test_an_example_runs_by_itself_as_it_did_before(tmp_path, script):
    """And without the two lines it prints the same."""
    pytest.importorskip(NEEDS.get(script, "torch"), reason="not installed here")
    (tmp_path / script).write_text(bare_of(script))
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    printed = [
        subprocess.run(
            [sys.executable, path, *SHORT[script]], check=True, capture_output=True, text=True
        ).stdout
        for path in (EXAMPLES / script, tmp_path / script)
    ]
    assert printed[0] == printed[1]
