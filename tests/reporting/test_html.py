"""A page as HTML: claims, published values and folded parts as a reader finds them."""

import re

from paceline.exhibits.values import (
    Claim,
    Column,
    Figure,
    Listing,
    Page,
    Section,
    labelled,
    table_of,
)
from paceline.reporting import page_of, write
from paceline.reporting.html import html
from tests.browser import ONE_WORD_LINES, browser
from tests.made_runs import made

CLAIMS = (
    Claim(key="L1", said="about 0.33", measured="0.34", judgement="holds"),
    Claim(key="L2", said="slower", measured="faster", judgement="does not hold here", reason="why"),
    Claim(key="L3", said="a < b", measured="-", judgement="cannot be tested here", reason="no GPU"),
)


LABELS = ("replayed compute (k80), dilated 20x",)
CHIPS = f'<ul class="labels"><li>{LABELS[0]}</li></ul>'


def written(*items, labels=(), **section) -> str:
    sections = (Section(title="S", items=items, **section),)
    return html(labelled(Page(title="P", labels=labels, sections=sections)), {}, "")


def test_claims_stand_in_one_table_with_their_judgements():
    text = written(*CLAIMS)
    assert text.count("<table") == 1
    assert re.findall(r'class="judgement (\w+)">. ([\w ]+)<', text) == [
        ("holds", "holds"),
        ("fails", "does not hold here"),
        ("open", "cannot be tested here"),
    ]
    assert "a &lt; b" in text
    assert "<p>no GPU</p>" in text


def test_published_values_look_different():
    columns = [
        Column(name="what", label="what"),
        Column(name="ours", label="ours", unit="s", form=".1f"),
        Column(name="theirs", label="published", unit="s", form=".1f", published=True),
    ]
    text = written(table_of("t", "T", [{"what": "a", "ours": 1.0, "theirs": 2.0}], columns))
    assert '<td class="number short">1.0</td>' in text
    assert '<td class="number published short">2.0</td>' in text


def test_a_spread_stands_behind_its_value():
    columns = [
        Column(name="what", label="what"),
        Column(name="s", label="s", form=".1f", spread="half"),
    ]
    text = written(table_of("t", "T", [{"what": "a", "s": 1.0, "half": 0.2}], columns))
    assert '>1.0 <span class="spread">± 0.2</span></td>' in text


def test_a_long_table_and_a_listing_are_folded():
    rows = [{"a": str(number)} for number in range(40)]
    text = written(
        table_of("t", "Long", rows, [Column(name="a", label="a")]),
        Listing(name="spec", title="Spec", text="a = 1"),
    )
    assert "<summary>Long (40 rows)</summary>" in text
    assert "<summary>Spec</summary><pre><code>a = 1</code></pre>" in text


def test_labels_stand_by_what_they_are_about():
    table = table_of("t", "T", [], [Column(name="a", label="a")], labels=("real compute",))
    text = written(table, labels=LABELS)
    assert '<h3>T</h3><ul class="labels"><li>real compute</li></ul>' in text


def test_what_has_no_labels_of_its_own_has_the_pages():
    column = Column(name="a", label="a")
    short = table_of("short", "Short", [], [column])
    long = table_of("long", "Long", [{"a": str(number)} for number in range(40)], [column])
    figure = Figure(name="f", title="F", table=short, draw=lambda _: None)
    text = written(short, long, figure, *CLAIMS, labels=LABELS)
    assert f"<h3>Short</h3>{CHIPS}" in text
    assert f"<summary>Long (40 rows)</summary>{CHIPS}" in text
    assert f"<h3>F</h3>{CHIPS}" in text
    assert f'{CHIPS}<div class="scroll"><table class="claims">' in text


def test_no_line_of_a_sentence_ends_within_an_option_or_before_a_per_cent_sign():
    text = written(text=("Full at 77 % & slow (--lr-scaling linear).",))
    whole = re.findall(r'<span class="whole">(.*?)</span>', text)
    assert whole == ["77 %", "--lr-scaling"]
    assert re.sub(r"</?span[^>]*>", "", text).count("77 % &amp; slow (--lr-scaling linear)") == 1


def test_the_name_of_a_long_row_is_not_one_word_wide_on_a_telephone(tmp_path):
    pairs = [("mine.py:Reg", 0.01), ("mine.py:Reg", 0.02), ("mine.py:Own", 0.02)]
    runs = [
        made(tmp_path / "runs", lr=lr, batch=batch, workload=name)
        for name, lr in pairs
        for batch in (75, 150)
    ]
    path = write(page_of(runs), tmp_path / "page")
    with browser(tmp_path / "profile") as chromium:
        chromium.open(path, 400)
        assert chromium.evaluate(ONE_WORD_LINES) == []
