"""The page of attention maps: in Chromium, without scripts, and with hostile text."""

from __future__ import annotations

import base64
import hashlib
import re
import tracemalloc
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import needs_chromium, run_in_chromium

from dialog.report.drawing.attention.page import attention_page, training_page
from dialog.report.drawing.attention.reading import AttentionReading

MASSES = "all('.group > button').map((button) => button.textContent)"


@pytest.mark.endurance
@needs_chromium
def test_every_map_has_a_colour_scale(two_heads: dict[str, Any], tmp_path: Path) -> None:
    """From 0 to the largest weight of both maps, and of equal lengths on both sides of 0 for their
    difference.
    """
    readings = [
        ("one", two_heads),
        ("two", {**two_heads, "maps": [flipped(one) for one in two_heads["maps"]]}),
    ]
    steps = """
      labelled('difference').click();
      return all('.scale').map((scale) => [scale.textContent, scale.querySelector('.bar').style.backgroundImage]);
    """
    scales = run_in_chromium(attention_page(readings, title="runs"), steps, tmp_path)
    peak = max(
        np.mean(one["weights"], 0).max() for _, reading in readings for one in reading["maps"][-1:]
    )
    texts = [text for text, _ in scales]
    assert texts[0] == texts[2] == f"weight: 0{peak:.3f}"
    assert texts[1] == texts[3] == "mean weight in the text above: 00.667"
    assert re.fullmatch(r"difference: −(0\.\d+)\+\1", texts[4])
    assert all(bar.startswith("linear-gradient(to right, rgb(") for _, bar in scales)


@pytest.mark.endurance
@needs_chromium
@pytest.mark.parametrize(("box", "coloured"), [("second map", 4), ("difference", 6)])
def test_a_row_has_the_colours_of_its_map(
    two_heads: dict[str, Any], box: str, coloured: int, tmp_path: Path
) -> None:
    """Also one whose largest weight is smaller than that of the map."""
    readings = [
        ("one", two_heads),
        ("two", {**two_heads, "maps": [flipped(one) for one in two_heads["maps"]]}),
    ]
    steps = f"""
      labelled('{box}').click();
      const panel = all('.panel').filter(shown).at(-1);
      panel.querySelector('[role=option]').focus();
      const canvas = panel.querySelector('canvas');
      const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set();
      for (let at = 0; at < data.length; at += 4) colours.add(`rgb(${{[...data.slice(at, at + 3)].join(', ')}})`);
      const tokens = [...panel.querySelectorAll('.columns .token')];
      const shades = tokens.map((token) => token.style.backgroundColor).filter(Boolean);
      return [shades.length, shades.filter((shade) => !colours.has(shade))];
    """
    assert run_in_chromium(attention_page(readings, title="runs"), steps, tmp_path) == [
        coloured,
        [],
    ]


def test_speakers_of_all_turns_are_named(two_heads: dict[str, Any]) -> None:
    """Also of turns that are not read, whose speakers alternate."""
    page = attention_page([("", two_heads | {"unread_turns": ["a", "b", "c"]})], title="run")
    speakers = re.findall(
        r'<span class="speaker">(.*?): </span><span dir="auto">(.*?)</span>', page
    )
    assert speakers == [
        *zip(["other speaker", "responder", "other speaker"], "abc", strict=True),
        ("responder", "Hi ."),
        ("other speaker", "How are you ?"),
        ("response", two_heads["response"].replace("<", "&lt;").replace(">", "&gt;")),
    ]


@pytest.mark.endurance
@needs_chromium
def test_a_character_of_several_tokens_is_readable(
    two_heads: dict[str, Any], tmp_path: Path
) -> None:
    page = attention_page(
        [("", two_heads | {"response_tokens": ["▁a\\xf0\\x9f", "\\x98\\x80", "</s>"]})], title="run"
    )
    steps = """
      one('[role=option]').focus();
      return [all('[role=option]').map((token) => token.textContent), one('.status').textContent];
    """
    rows, status = run_in_chromium(page, steps, tmp_path)
    assert rows == ["a😀₁", "😀₂", "</s>"]
    assert "part of" in status
    assert "\\x" not in status
    assert "\\x9f" not in page


def flipped(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "weights": np.flip(np.asarray(one["weights"]), -1).tolist()}


@needs_chromium
def test_readers_explore_rows_heads_and_hidden_tokens(
    two_heads: dict[str, Any], tmp_path: Path
) -> None:
    steps = f"""
      const seen = {{ still: shown(one('.still')), options: all('[role=option]').map((token) => token.textContent) }};
      seen.mean = {MASSES};
      pick(one('.panel .pick select', 2), '0');
      one('[role=option]').focus();
      seen.first = {MASSES};
      seen.status = one('.status').textContent;
      press(document.activeElement, 'ArrowRight');
      seen.second = {MASSES};
      seen.focused = document.activeElement.textContent;
      press(document.activeElement, 'Home');
      labelled('end and start').click();
      labelled('punctuation').click();
      one('[role=option]').focus();
      seen.hidden = {MASSES};
      seen.note = all('.note').map((note) => note.textContent).join(' ');
      press(document.activeElement, 'Escape');
      seen.selected = all('[aria-selected=true]').length;
      const shaded = all('.tokens .token').filter((token) => token.style.backgroundColor);
      seen.inks = shaded.map((token) => token.style.color);
      one('.group > button').click();
      seen.folded = one('.group > button').getAttribute('aria-expanded');
      seen.canvas = one('canvas').width > 100;
      return seen;
    """
    seen = run_in_chromium(attention_page([("", two_heads)], title="run"), steps, tmp_path)
    assert not seen["still"]
    assert seen["options"] == ["I", "do", "</s>"]
    assert seen["mean"] == ["turn 1, responder 12 %", "turn 2, other speaker 22 %", "end 67 %"]
    assert seen["first"] == ["turn 1, responder 60 %", "turn 2, other speaker 20 %", "end 20 %"]
    assert seen["status"].startswith("\u2068_I\u2069 → \u2068_Hi\u2069 0.50 (turn 1, responder), ")
    assert seen["second"] == ["turn 1, responder 0.0 %", "turn 2, other speaker 100 %", "end 0.0 %"]
    assert seen["focused"] == "do"
    assert seen["hidden"] == ["turn 1, responder 75 %", "turn 2, other speaker 25 %", "end 0.0 %"]
    assert "Hidden: end and start tokens, punctuation. Each row is renormalised" in seen["note"]
    assert "hold 33 % of a row on average" in seen["note"]
    assert seen["selected"] == 0
    assert seen["inks"]
    assert all(seen["inks"]), "quiet letters on a shade are hard to read"
    assert seen["folded"] == "false"
    assert seen["canvas"]


@pytest.mark.endurance
@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_are_readable_on_every_shade(scheme: str, tmp_path: Path) -> None:
    """Contrast of letters on the shades of weights and, both ways, of differences, by the formula
    of WCAG 2.
    """
    maps = long_reading(1, 60)
    rows = np.linspace(0, 1, 60), np.linspace(1, 0, 60)
    readings = [
        (name, {**maps, "maps": [{**maps["maps"][-1], "weights": [[row] * 2]}]})
        for name, row in zip("ab", rows, strict=True)
    ]
    steps = """
      labelled('difference').click();
      const shaded = all('.columns .token').filter((token) => token.style.backgroundColor);
      return shaded.map((token) => [token.style.backgroundColor, getComputedStyle(token).color]);
    """
    page = attention_page(readings, title="runs")
    pairs = run_in_chromium(
        page, steps, tmp_path, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    )
    assert len(pairs) > 150
    luminances = np.sort([[luminance(colour) for colour in pair] for pair in pairs])
    assert ((luminances[:, 1] + 0.05) / (luminances[:, 0] + 0.05)).min() > 4.2


def luminance(colour: str) -> float:
    channels = np.array([int(channel) for channel in re.findall(r"\d+", colour)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.endurance
@needs_chromium
def test_two_runs_side_by_side_and_their_difference(
    two_heads: dict[str, Any], tmp_path: Path
) -> None:
    steps = f"""
      const panels = () => all('.panel').filter(shown).map((panel) => panel.querySelector('h3').textContent);
      const seen = {{ two: panels() }};
      pick(all('.panel')[0].querySelectorAll('select')[2], '0');
      pick(all('.panel')[1].querySelectorAll('select')[2], '1');
      labelled('difference').click();
      seen.three = panels();
      all('.panel')[0].querySelector('[role=option]').focus();
      seen.masses = {MASSES}.slice(-3);
      seen.selected = all('[aria-selected=true]').length;
      return seen;
    """
    page = attention_page([("lstm", two_heads), ("transformer", two_heads)], title="two")
    seen = run_in_chromium(page, steps, tmp_path)
    head = "decoder.attention, mean over heads"
    assert seen["two"] == [f"A: lstm: {head}", f"B: transformer: {head}"]
    assert seen["three"][2] == "Difference A − B: blue where A is larger"
    assert seen["masses"] == ["turn 1, responder +60 %", "turn 2, other speaker +20 %", "end -80 %"]
    assert seen["selected"] == 3


@pytest.mark.endurance
@needs_chromium
def test_maps_side_by_side_begin_at_one_height(two_heads: dict[str, Any], tmp_path: Path) -> None:
    page = attention_page(
        [("lstm with a long name " * 9, two_heads), ("transformer", two_heads)], title="two"
    )
    steps = (
        "return all('.panel canvas').filter(shown).map((map) => map.getBoundingClientRect().top)"
    )
    first, second = run_in_chromium(page, steps, tmp_path, "--window-size=1280,900")
    assert first == second


@pytest.mark.endurance
@needs_chromium
def test_maps_of_different_tokens_have_no_difference(
    two_heads: dict[str, Any], tmp_path: Path
) -> None:
    other = two_heads | {"context_tokens": ["x", *two_heads["context_tokens"][1:]]}
    page = attention_page([("a", two_heads), ("b", other)], title="two")
    assert run_in_chromium(page, "return labelled('difference').disabled", tmp_path)


def long_reading(turns: int, length: int) -> dict[str, Any]:
    tokens = turns * length
    return {
        "context_tokens": [f"▁word{place}" for place in range(tokens)],
        "response_tokens": ["▁a", "</s>"],
        "turns": [{"speaker": "other", "text": f"turn {turn}"} for turn in range(turns)],
        "context_lines": [place // length for place in range(tokens)],
        "maps": [
            {"name": "encoder.layers.0.self_attention", "kind": "self", "side": "source", "columns": "source",
             "weights": [[[1 / tokens] * tokens] * tokens]},
            {"name": "decoder.attention", "kind": "cross", "side": "target", "columns": "source",
             "weights": [[[1 / tokens] * tokens] * 2]},
        ],
    }  # fmt: skip


@pytest.mark.endurance
@needs_chromium
def test_a_long_context_is_folded_and_the_page_small(tmp_path: Path) -> None:
    page = attention_page([("", long_reading(20, 100))], title="long")
    assert len(page) < 1_000_000
    steps = """
      const seen = { open: all('.group > button[aria-expanded=true]').length, notes: one('.note').textContent };
      seen.wide = document.documentElement.scrollWidth > innerWidth;
      seen.cells = all('.heat thead th').length;
      one('[role=option]').focus();
      seen.status = one('.status').textContent;
      return seen;
    """
    seen = run_in_chromium(page, steps, tmp_path)
    assert seen["open"] == 1
    assert seen["notes"].startswith(
        "encoder.layers.0.self_attention: mean over heads only, summed over turns; "
    )
    assert not seen["wide"]
    assert seen["cells"] == 1 + 19 + 100
    assert "turn 1, other speaker 0.05, turn 2, other speaker 0.05, " in seen["status"]


@needs_chromium
def test_hostile_texts_are_inert(hostile_maps: dict[str, Any], tmp_path: Path) -> None:
    page = attention_page([("", hostile_maps)], title=hostile_maps["turns"][0]["text"])
    assert page.count("<script") == 2
    assert "<img" not in page
    assert not set(page) & set("\u202e\x1b")
    steps = (
        "return [all('img').length, one('.rows').textContent.includes('<' +"
        " '/script></title><img'), document.title]"
    )
    images, readable, title = run_in_chromium(page, steps, tmp_path)
    assert images == 0
    assert readable
    assert title.startswith("Attention of </script>")


def test_the_policy_allows_one_script_and_one_style(two_heads: dict[str, Any]) -> None:
    page = attention_page([("", two_heads)], title="run")
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, style)
    ]
    assert "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base".format(
        *digests
    ) in unescape(page)
    assert "&#34;" not in style
    assert 'style="' not in page, "the policy forbids style attributes"
    assert not re.search(r"https?://|url\(|@import|innerHTML", page)


def test_readable_without_scripts(two_heads: dict[str, Any]) -> None:
    page = attention_page([("", two_heads)], title="run")
    table = page[page.index('<table class="heat">') : page.index("</table>")]
    assert table.count("<td") == 3 * 7
    assert 'title="0.250"' in table, "the mean of two heads"
    assert "<bdi>_Hi</bdi> 0.25" in page
    assert "mean over heads of <code>decoder.attention</code>, colours from 0 to 0.900." in page
    single = {
        **two_heads,
        "maps": [{**two_heads["maps"][0], "weights": two_heads["maps"][0]["weights"][:1]}],
    }
    page = attention_page([("", single)], title="run")
    assert (
        '<figcaption class="caption"><code>decoder.attention</code>, colours from 0 to 1.000.'
        in page
    )


@needs_chromium
def test_a_word_of_several_tokens_has_no_spaces(two_heads: dict[str, Any], tmp_path: Path) -> None:
    page = attention_page([("", two_heads | {"response_tokens": ["Ye", "s", "."]})], title="run")
    assert run_in_chromium(page, "return one('[role=listbox]').textContent", tmp_path) == "Yes."


@needs_chromium
def test_a_lone_space_mark_is_visible(two_heads: dict[str, Any], tmp_path: Path) -> None:
    page = attention_page([("", two_heads | {"response_tokens": ["▁", "do", "</s>"]})], title="run")
    assert '<th scope="row"><bdi>␣</bdi></th>' in page
    steps = (
        "one('[role=option]').focus(); return [one('[role=option]').textContent,"
        " one('.status').textContent[1]]"
    )
    assert run_in_chromium(page, steps, tmp_path) == ["␣", "␣"]


def test_memory_of_a_page_does_not_grow_with_its_weights(two_heads: dict[str, Any]) -> None:
    side = 800
    tokens = {
        "context_tokens": ["▁a"] * side,
        "context_lines": [0] * side,
        "context_kinds": ["word"] * side,
    }
    weights = np.full((8, side, side), 1 / side, dtype=np.float32)
    own = {
        "name": "encoder",
        "kind": "self",
        "side": "source",
        "columns": "source",
        "weights": weights,
    }
    tracemalloc.start()
    attention_page([("", {**two_heads, **tokens, "maps": [own]})], title="run")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < weights.nbytes, "a copy of the weights, or lists of them"


def test_memory_of_json_does_not_grow_with_the_file(tmp_path: Path) -> None:
    reading = AttentionReading(
        maps=[{"weights": np.random.default_rng(0).random((1, 300, 300), dtype=np.float32)}]
    )
    tracemalloc.start()
    reading.write_json(str(tmp_path / "a.json"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (tmp_path / "a.json").stat().st_size / 10


def test_what_is_not_read_is_shown(two_heads: dict[str, Any]) -> None:
    maps = two_heads | {"unread_turns": ["Long ago ."], "dropped_tokens": 7}
    text = unescape(attention_page([("", maps)], title="run"))
    assert "<summary>1 earlier turn, not read by the model</summary>" in text
    assert re.search(r'class="unread">.*<span dir="auto">Long ago \.</span>', text)
    assert "limited number of turns; not read: the first turn." in text
    assert "its first 7 tokens are not read" in text
    assert '["turn 2, responder",' in text, "counted from the first turn of the dialogue"


def test_a_notebook_shows_readings_in_frames(two_heads: dict[str, Any]) -> None:
    html = AttentionReading(two_heads)._repr_html_()
    assert html.startswith('<iframe sandbox="allow-scripts" ')
    assert html.count("<") == 2, "the page is one attribute"
    assert unescape(html).count("<!doctype html>") == 1


def test_an_empty_context(two_heads: dict[str, Any]) -> None:
    maps = two_heads | {
        "context_tokens": ["</s>"],
        "context_kinds": ["end"],
        "context_lines": [-1],
        "turns": [],
    }
    maps |= {"maps": [two_heads["maps"][0] | {"weights": [[[1.0]] * 3] * 2}]}
    assert "(empty context)" in attention_page([("", maps)], title="run")
    no_words = two_heads | {"turns": [{"speaker": "other", "text": ""}, two_heads["turns"][1]]}
    assert re.search(
        r'<li class="empty">.*\(empty turn\)</li>', attention_page([("", no_words)], title="run")
    )


@needs_chromium
def test_a_slider_chooses_the_step_of_a_training(two_heads: dict[str, Any], tmp_path: Path) -> None:
    trained = {
        **two_heads,
        "maps": [{**two_heads["maps"][0], "weights": [[[0.0] * 6 + [1.0]] * 3] * 2}],
    }
    readings = [("step 100", two_heads), ("step 2,000", trained)]
    steps = f"""
      const slide = (value) => {{
        one('input[type=range]').value = value;
        one('input[type=range]').dispatchEvent(new Event('input', {{ bubbles: true }}));
        return [one('output').textContent, one('.panel h3').textContent.split(':')[0], {MASSES}[2]];
      }};
      const picks = all('.panel .pick').filter(shown).map((label) => label.firstChild.textContent);
      return {{ start: one('output').textContent, picks, first: slide(0), last: slide(1) }};
    """
    seen = run_in_chromium(training_page({7: readings, 9: readings}), steps, tmp_path)
    assert seen["start"] == "step 2,000"
    assert seen["picks"] == ["map", "head"]
    assert seen["first"] == ["step 100", "step 100", "end 67 %"]
    assert seen["last"] == ["step 2,000", "step 2,000", "end 100 %"]


def test_a_training_page_keeps_as_many_examples_as_fit(two_heads: dict[str, Any]) -> None:
    wide = {
        **two_heads,
        "maps": [{**two_heads["maps"][0], "weights": np.full((40_000, 3, 7), 1 / 7)}],
    }
    page = training_page({7: [("step 1", two_heads)], 8: [("step 1", wide)], 9: [("step 1", wide)]})
    assert re.findall(r'"id":"(\d+): ', page) == ["7", "8"]
    assert "1 more example in the files of the run." in page
