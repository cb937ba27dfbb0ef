"""``dialog attention`` on trained runs: every format, and pages that stay inert."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from program import Done

import dialog

CONTEXT = ["Hello <script>alert(1)</script>", "我很好 & you ?"]
TURNS = [argument for turn in CONTEXT for argument in ("--context", turn)]


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_every_format_shows_the_response(
    family: str, here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = trained(family)
    for suffix in ("json", "svg", "png", "html"):
        done = call("attention", str(run), *TURNS, "--response", "Fine .", "--output", f"map.{suffix}")
        assert done.code == 0, done.err
    maps = json.loads((here / "map.json").read_text(encoding="utf-8"))
    assert maps == dialog.load(run).attention(CONTEXT, "Fine .")
    for one in maps["maps"]:
        assert all(sum(row) == pytest.approx(1, abs=1e-5) for head in one["weights"] for row in head)
    with Image.open(here / "map.png") as image:
        assert min(image.size) > 100
    page = (here / "map.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    heads = [len(one["weights"]) for one in maps["maps"]]
    assert page.count("<svg") == sum(number + (number > 1) for number in heads)
    assert (here / "map.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_response_is_generated_if_none_is_given(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = trained("transformer")
    done = call("attention", str(run), *TURNS, "generation=beam5", "--output", "map.json")
    assert done.code == 0, done.err
    reply = dialog.load(run, overrides=["generation=beam5"]).respond(CONTEXT)
    assert json.loads((here / "map.json").read_text(encoding="utf-8")) == reply.attention()


@pytest.mark.parametrize(
    ("output", "message"), [("map.pdf", "ends in .html, .png, .svg, .json"), ("taken.svg", "taken.svg exists")]
)
def test_outputs_that_cannot_be_written(
    output: str, message: str, here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    (here / "taken.svg").touch()
    done = call("attention", str(trained("lstm")), *TURNS, "--output", output)
    assert done.code == 2
    assert message in done.err
