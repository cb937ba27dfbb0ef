"""``dialog attention`` on trained runs: every format, and pages that stay inert."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from program import Done

import dialog
from dialog.report.drawing.attention.reading import AttentionReading

CONTEXT = ["Hello <script>alert(1)</script>", "我很好 & you ?"]
TURNS = [argument for turn in CONTEXT for argument in ("--context", turn)]


def check_equal(content: dict[str, Any], reading: AttentionReading) -> None:
    """Compare the JSON of a file with a reading, whose weights are arrays; its numbers are
    exact.
    """
    maps = [{**one, "weights": one["weights"].tolist()} for one in reading["maps"]]
    rolled = None if reading["rollout"] is None else reading["rollout"].tolist()
    assert content == {**reading, "maps": maps, "rollout": rolled}


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_every_format_shows_the_response(
    family: str, here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = trained(family)
    for suffix in ("json", "svg", "png", "html"):
        done = call(
            "attention", str(run), *TURNS, "--response", "Fine .", "--output", f"map.{suffix}"
        )
        assert done.code == 0, done.err
    maps = json.loads((here / "map.json").read_text(encoding="utf-8"))
    check_equal(maps, dialog.load(run).attention(CONTEXT, "Fine ."))
    for one in maps["maps"]:
        assert all(
            sum(row) == pytest.approx(1, abs=1e-5) for head in one["weights"] for row in head
        )
    with Image.open(here / "map.png") as image:
        assert min(image.size) > 100
    page = (here / "map.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    data = json.loads(
        page.partition('<script type="application/json">')[2].partition("</script>")[0]
    )
    (packed,) = data["examples"][0]["readings"]
    names = [one["name"] for one in maps["maps"]] + ["rollout"] * (family == "transformer")
    assert [one["name"] for one in packed["maps"]] == names
    assert [group[0] for group in packed["axes"]["source"]["groups"]] == [
        "turn 1, responder",
        "turn 2, other speaker",
        "end",
    ]
    exact = [one["weights"] for one in maps["maps"]] + [[maps["rollout"]]] * (
        family == "transformer"
    )
    for one, weights in zip(packed["maps"], exact, strict=True):
        rounded = (
            np.frombuffer(base64.b64decode(one["weights"]), "<u2").reshape(one["shape"]) / 65535
        )
        np.testing.assert_allclose(rounded, weights, atol=0.5 / 65535 + 1e-9)
    assert (here / "map.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_chosen_map_is_drawn(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run, name = trained("transformer"), "encoder.layers.0.self_attention"
    options = [*TURNS, "--response", "Fine .", "--layer", name, "--head", "1"]
    for suffix in ("svg", "html", "png"):
        done = call("attention", str(run), *options, "--output", f"map.{suffix}")
        assert done.code == 0, done.err
    drawn = (here / "map.svg").read_text(encoding="utf-8")
    assert f"{name}, head 1" in drawn
    assert "light-dark" not in drawn, "only browsers know it"
    assert f'"first":{{"map":"{name}","head":1}}' in (here / "map.html").read_text(encoding="utf-8")


def test_two_runs_are_on_one_page(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    runs = [str(trained(family)) for family in ("lstm", "transformer")]
    done = call("attention", *runs, *TURNS, "--output", "map.html")
    assert done.code == 0, done.err
    page = (here / "map.html").read_text(encoding="utf-8")
    assert "decoder.attention</code>" in page
    assert "decoder.layers.1.cross_attention</code>" in page
    assert call("attention", *runs, *TURNS, "--output", "map.svg").code == 2
    for name in ("decoder.attention", "decoder.layers.0.cross_attention"):  # one run has it
        done = call("attention", *runs, *TURNS, "--layer", name, "--output", f"{name}.html")
        assert done.code == 0, done.err
        assert f'"first":{{"map":"{name}","head":null}}' in (here / f"{name}.html").read_text(
            encoding="utf-8"
        )


def test_a_picture_prints_what_is_not_read(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    turns = [argument for number in range(9) for argument in ("--context", f"Turn {number} .")]
    for suffix in ("svg", "png"):
        done = call(
            "attention",
            str(trained("lstm")),
            *turns,
            "--response",
            "Fine .",
            "--output",
            f"map.{suffix}",
        )
        assert (done.code, done.out.strip()) == (0, f"map.{suffix}")
        assert "not read: the first " in done.err or "are not read" in done.err


def test_a_response_is_generated_if_none_is_given(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = trained("transformer")
    done = call("attention", str(run), *TURNS, "generation=beam5", "--output", "map.json")
    assert done.code == 0, done.err
    reply = dialog.load(run, overrides=["generation=beam5"]).respond(CONTEXT)
    check_equal(json.loads((here / "map.json").read_text(encoding="utf-8")), reply.attention())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "map.pdf"], "ends in .html, .png, .svg, .json"),
        (["--output", "taken.svg"], "taken.svg exists"),
        (
            ["--output", "a.svg", "--layer", "decoder.atention"],
            "unknown --layer 'decoder.atention'; did you mean 'decoder.attention'?",
        ),
        (
            ["--output", "a.png", "--head", "7"],
            "unknown --head of decoder.attention '7'; choose from 0",
        ),
        (["--output", "a.json", "--head", "0"], "--head: a.json has all maps"),
        (["--output", "a.svg", "--bertviz"], "--bertviz writes .html, not .svg"),
        (["--output", "a.svg", "--json"], "--json: only with --statistics or --importance"),
        (
            ["--output", "a.svg", "--split", "test", "--sample", "9"],
            "--split, --sample: only with --statistics or",
        ),
        (
            ["--output", "a.svg", "--context", "caf\udce9"],
            "--context: the text is not UTF-8; check the encoding",
        ),
    ],
)
def test_arguments_that_do_not_fit(
    options: list[str],
    message: str,
    here: Path,
    call: Callable[..., Done],
    trained: Callable[[str], Path],
) -> None:
    (here / "taken.svg").touch()
    done = call("attention", str(trained("lstm")), *TURNS, "--response", "Fine .", *options)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
