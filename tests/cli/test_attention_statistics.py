"""``dialog attention`` over a split: statistics, importance of heads, and bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from program import Done

Call = Callable[..., Done]


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_statistics_are_printed_and_drawn(
    family: str, here: Path, call: Call, trained: Callable[[str], Path]
) -> None:
    run = str(trained(family))
    for suffix in ("json", "svg", "png", "html"):
        done = call("attention", run, "--statistics", "--sample", "2", "--output", f"s.{suffix}")
        assert done.code == 0, done.err
    measured = json.loads((here / "s.json").read_text(encoding="utf-8"))
    names = [
        "mean",
        "rollout",
        "uniform",
        *(f"{row['module']}.{row['head']}" for row in measured["rows"][:-3]),
    ]
    page = (here / "s.html").read_text(encoding="utf-8")
    for name in names:
        assert f"\n{name} " in done.out
        assert f"<code>{name}</code>" in page
    assert max(map(len, done.out.splitlines()[1:])) <= 80
    assert "default-src &#39;none&#39;" in page
    assert "<script" not in page
    drawn = (here / "s.svg").read_text(encoding="utf-8")
    assert f"{names[-1].replace('layers.', '').replace('_attention', '')}</text>" in drawn, (
        "with its number"
    )
    assert drawn.startswith("<svg")
    assert "light-dark" not in drawn, "only browsers know it"
    with Image.open(here / "s.png") as image:
        assert min(image.size) > 100
    done = call(
        "attention", run, "--statistics", "--sample", "2", "--split", "validation", "--json"
    )
    assert json.loads(done.out)["split"] == "validation"


def test_importance_is_printed_and_drawn(
    here: Path, call: Call, trained: Callable[[str], Path]
) -> None:
    run = str(trained("transformer"))
    for suffix in ("json", "svg", "html"):
        done = call("attention", run, "--importance", "--sample", "20", "--output", f"i.{suffix}")
        assert done.code == 0, done.err
    measured = json.loads((here / "i.json").read_text(encoding="utf-8"))
    assert measured["examples"] == measured["ranking_examples"] == 20
    assert len(measured["curve"]) == len(measured["heads"]) + 1
    values = [head["normalised"] for head in measured["heads"]]
    assert values == sorted(values, reverse=True)
    best = measured["heads"][0]
    assert f"{best['module']}.{best['head']}" in done.out
    assert "bits per byte" in (here / "i.svg").read_text(encoding="utf-8")
    assert "Michel" in (here / "i.html").read_text(encoding="utf-8")


def test_an_ablated_model_answers(here: Path, call: Call, trained: Callable[[str], Path]) -> None:
    run = str(trained("transformer"))
    (here / "in.jsonl").write_text('{"context": ["Hi"], "response": "Fine ."}\n', encoding="utf-8")
    heads = [f"--ablate=decoder.layers.0.cross_attention.{head}" for head in (0, 1)]
    whole, pruned = (
        json.loads(call("score", run, "--input", "in.jsonl", *options).out)["nll"]
        for options in ([], heads)
    )
    assert whole != pytest.approx(pruned)
    assert call("respond", run, "--input", "in.jsonl", *heads).code == 0


@pytest.mark.parametrize(
    ("family", "arguments", "message"),
    [
        ("lstm", ["--importance"], "no multi-head attention"),
        ("lstm", ["--statistics", "--importance"], "give one of them"),
        (
            "lstm",
            ["--statistics", "--context", "Hi"],
            "--context: --statistics measures a whole split",
        ),
        ("lstm", ["--statistics", "--output", "a.pdf"], "ends in .html, .png, .svg, .json"),
        ("transformer", ["--importance", "--output", "a.png"], "ends in .html, .svg, .json"),
        ("lstm", ["--statistics", "--output", "taken.svg"], "taken.svg exists"),
        (
            "lstm",
            ["--importance", "--output", "no/such.svg"],
            "no/such.svg: cannot be written (No such file",
        ),
        ("lstm", [], "--output is missing"),
    ],
)
def test_bad_input_is_one_line(
    family: str,
    arguments: list[str],
    message: str,
    here: Path,
    call: Call,
    trained: Callable[[str], Path],
) -> None:
    (here / "taken.svg").touch()
    done = call("attention", str(trained(family)), *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_an_empty_split_is_one_line(here: Path, call: Call, trained: Callable[[str], Path]) -> None:
    data = here / "data"
    data.mkdir()
    for split in ("train", "validation", "test"):
        (data / f"{split}.jsonl").write_text("", encoding="utf-8")
    run = shutil.copytree(trained("lstm"), here / "run")
    done = call(
        "attention", str(run), "data.corpus={name: jsonl}", f"data.path={data}", "--statistics"
    )
    assert done.code == 2
    assert "test.jsonl is empty" in done.err
