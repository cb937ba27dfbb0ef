"""tune-generation: what it measures, writes and selects, interrupted or not, and what it
rejects.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree as Xml

import click
import pytest
import yaml
from PIL import Image
from torch import Tensor

from dialog.atomic import lock
from dialog.cli import program
from dialog.config.components import Component
from dialog.config.compose import compose
from dialog.config.schema import GenerationConfig
from dialog.config.yaml_layers import read_yaml
from dialog.data.dialogue import Example, Turn
from dialog.errors import UserError
from dialog.generation.responder import Candidate, Responder
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.load import load
from dialog.runs.verify import verify
from dialog.tuning.generation.decoding_setting import DecodingSetting, read_settings
from dialog.tuning.generation.rule import DEFAULT, on_frontier, parse_rule
from dialog.tuning.generation.sample import DIVERSITY, NAMES, Sample, draw_sample
from dialog.tuning.generation.tune import Record, TuningTask, write_selected
from dialog.tuning.space import sweep_file

SETTINGS = """
greedy: {search: {name: greedy}}
beam, short: {search: {name: beam, width: 3}, max_length: 4}
draws 1.5: {search: {name: sampling, top_p: 0.9}}
"""


@pytest.fixture
def runs(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Copies of both tiny runs, and a file of settings, in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("settings.yaml").write_text(SETTINGS, encoding="utf-8")
    return [
        str(shutil.copytree(trained(family), tmp_path / family))
        for family in ("lstm", "transformer")
    ]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    program.main(["tune-generation", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_two_runs_are_measured_drawn_and_selected(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = call(
        capsys,
        *runs,
        "--settings",
        "settings.yaml",
        "--json",
        "--rule",
        "distinct_2",
        "--output",
        "out",
    )
    results = json.loads(out)
    assert results == json.loads(Path("out/results.json").read_text(encoding="utf-8"))
    assert results["split"] == "validation"
    assert 0 < results["examples"] == results["available"]
    assert results["human"]["f1"] == 100
    assert [run["name"] for run in results["runs"]] == ["lstm", "transformer"]
    for run in results["runs"]:
        assert [row["name"] for row in run["settings"]] == ["greedy", "beam, short", "draws 1.5"]
        best = max(run["settings"], key=lambda row: row["distinct_2"])
        assert (run["selected"], [row["selected"] for row in run["settings"]].count(True)) == (
            best["name"],
            1,
        )
        assert sum(row["frontier"] for row in run["settings"]) >= 1
        assert all(len(row["responses"]) == results["examples"] for row in run["settings"])
    drawn = Path("out/frontier.svg").read_text(encoding="utf-8")
    assert "light-dark" not in drawn, "only browsers know it"
    svg = Xml.fromstring(drawn)
    titles = [title.text or "" for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert len(
        [title for title in titles if title.startswith("beam, short: Rarefied distinct-2")]
    ) == 2 * len(runs)
    with Image.open("out/frontier.png") as image:
        assert image.size[0] > 2000
    page = Path("out/frontier.html").read_text(encoding="utf-8")
    assert all(
        text in page
        for text in ("draws 1.5", "the highest Distinct-2 of all settings", "<svg", "lstm")
    )
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_metrics_are_those_of_an_evaluation(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    call(
        capsys,
        runs[0],
        "--settings",
        "settings.yaml",
        "--examples",
        "100000",
        "--rule",
        "length_mean",
    )
    line = json.loads(
        Path(runs[0], "generation", "settings.jsonl").read_text("utf-8").splitlines()[1]
    )
    overrides = ["generation.search={name: beam, width: 3}", "generation.max_length=4"]
    metrics = evaluate(load(runs[0], overrides=overrides), "validation", quiet=True).metrics
    for name in (
        "f1",
        "bleu_2",
        "distinct_1",
        "distinct_2",
        "entropy_2",
        "length_mean",
        "repetition_3",
    ):
        assert line["metrics"][name] == pytest.approx(metrics[name], abs=1e-9), name
    assert line["metrics"]["sacrebleu"] == pytest.approx(metrics["sacrebleu"]["score"])


def test_responses_of_one_word_are_not_selected() -> None:
    """A few bigrams are nearly all distinct, which shows no diversity."""
    draw = random.Random(0)
    references = [" ".join(draw.choices("abcdefgh", k=12)) for _ in range(400)]
    turns = [Turn("self", reference) for reference in references]
    sample = Sample(
        [Example(str(place), "d", (), turn, place) for place, turn in enumerate(turns)], 400
    )
    short = [f"a {place}" if place % 14 == 0 else "a" for place in range(400)]
    settings, human = (
        [sample.measure(short), sample.measure(references[1:] + references[:1])],
        sample.human(),
    )
    assert settings[0]["length_mean"] == pytest.approx(1.07, abs=0.01)
    settings[0]["f1"] = settings[1]["f1"] + 1
    assert parse_rule("f1 if distinct_2 >= 0.5 human", NAMES).select(settings, human) == 0
    for rule in (f"f1 if {DIVERSITY} >= 0.5 human", "f1 if length_mean >= 0.5 human", DEFAULT):
        assert parse_rule(rule, NAMES).select(settings, human) == 1
    assert on_frontier([(values[DIVERSITY], values["bleu_2"]) for values in settings]) == [
        False,
        True,
    ]


def test_selected_file_is_a_choice_of_generation(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = call(
        capsys,
        runs[0],
        "--settings",
        "settings.yaml",
        "--examples",
        "9",
        "--rule",
        "f1 if length_mean <= 4",
    )
    chosen = Path(runs[0], "configs", "generation", "tuned.yaml")
    assert "of at most 4.0" in chosen.read_text(encoding="utf-8").splitlines()[0]
    assert yaml.safe_load(chosen.read_text(encoding="utf-8")) == {
        "search": {"name": "beam", "width": 3},
        "max_length": 4,
    }
    for choice in ("tuned", str(chosen)):
        generation = load(runs[0], overrides=[f"generation={choice}"]).recipe.generation
        assert (generation.search, generation.max_length) == ({"name": "beam", "width": 3}, 4)
    assert (
        compose("quickstart/transformer", [f"generation={chosen}"]).recipe.generation.max_length
        == 4
    )
    (row,) = [line for line in table.splitlines() if line.startswith("*")]
    assert row.lstrip("*+ ").split()[:2] == ["beam,", "short"]


def test_interrupted_tuning_continues(
    runs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [runs[0], "--settings", "settings.yaml", "--examples", "20", "--json"]
    generate, searches = Responder.generate, []

    def counted(
        self: Responder, source: Tensor, search: Component, *, ids: Sequence[str]
    ) -> list[list[Candidate]]:
        searches.append(search["name"])
        if searches[-1] == "sampling" and searches.count("sampling") == 1:
            raise KeyboardInterrupt
        return generate(self, source, search, ids=ids)

    monkeypatch.setattr(Responder, "generate", counted)
    with pytest.raises(click.Abort) as stopped:
        call(capsys, *arguments)
    assert str(stopped.value.__cause__) == "interrupted; run the same command again to continue"
    capsys.readouterr()
    before = len(searches)
    results = json.loads(call(capsys, *arguments))
    assert set(searches[before:]) == {"sampling"}
    again = json.loads(call(capsys, *arguments))
    assert searches[-1] == "sampling"
    assert again == results
    monkeypatch.setattr(Responder, "generate", generate)
    shutil.rmtree(Path(runs[0], "generation"))
    whole = json.loads(call(capsys, *arguments))
    for one, other in zip(
        results["runs"][0]["settings"], whole["runs"][0]["settings"], strict=True
    ):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_changed_figures_are_an_error(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = runs[0], "--settings", "settings.yaml", "--examples", "9", "--json"
    before = json.loads(call(capsys, *arguments))["runs"][0]["selected"]
    file = Path(runs[0], "generation", "settings.jsonl")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lines[0]["metrics"]["f1"] = 99.0
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    with pytest.raises(UserError, match=r"generation/settings\.jsonl: has changed"):
        call(capsys, *arguments)
    assert {state.file for state in verify(Path(runs[0])) if state.state == "changed"} == {
        "generation/settings.jsonl"
    }
    file.unlink()
    assert json.loads(call(capsys, *arguments))["runs"][0]["selected"] == before


def test_another_sample_is_measured_again(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for examples, lines in (("9", 3), ("10", 6), ("9", 6)):
        call(capsys, runs[0], "--settings", "settings.yaml", "--examples", examples)
        assert (
            len(Path(runs[0], "generation", "settings.jsonl").read_text("utf-8").splitlines())
            == lines
        )


def test_an_ensemble_is_tuned_like_one_model(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its setting has a file of its own, and its responses are those of its evaluation."""
    arguments = ["--settings", "settings.yaml", "--examples", "9", "--rule", "distinct_2"]
    call(capsys, runs[0], *arguments)
    alone = Path(runs[0], "configs", "generation", "tuned.yaml").read_text("utf-8")
    table = call(capsys, runs[0], *arguments, "--ensemble", runs[1])
    assert table.startswith("lstm + transformer: 9 of ")
    assert "generation=tuned_ensemble selects it for this ensemble" in table
    lines = Path(runs[0], "generation", "settings.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 6
    together = load(runs, overrides=["generation=tuned_ensemble"])
    selected = max(map(json.loads, lines[3:]), key=lambda line: line["metrics"]["distinct_2"])
    assert together.recipe.generation.search == selected["generation"]["search"]
    sample, (chosen,) = (
        draw_sample(together, 9),
        read_settings(together, None, ["generation=tuned_ensemble"]),
    )
    assert (
        sample.decode(together, chosen.component, lambda count: None).responses
        == selected["responses"]
    )
    assert Path(runs[0], "configs", "generation", "tuned.yaml").read_text("utf-8") == alone
    with pytest.raises(UserError, match="--ensemble: only with one run"):
        call(capsys, *runs, "--ensemble", runs[1])


def test_another_reverse_model_is_measured_again(runs: list[str]) -> None:
    search = {"name": "mmi", "reverse": runs[1]}
    run, setting = load(runs[0]), DecodingSetting("mmi", {"search": search})
    record = Record(TuningTask(run, [setting], draw_sample(run, 3)))
    before = record.fingerprint(setting)
    with Path(runs[1], "model.safetensors").open("ab") as file:
        file.write(b" ")
    assert record.fingerprint(setting) != before


def test_variations_and_the_shipped_list(runs: list[str]) -> None:
    run = load(runs[0])
    grid = read_settings(
        run, None, (), ("generation=greedy,beam5", "generation.no_repeat_ngram=0,3")
    )
    assert [setting.name for setting in grid] == [
        f"generation={search}, no_repeat_ngram={order}"
        for search in ("greedy", "beam5")
        for order in (0, 3)
    ]
    assert grid[3].component == {**grid[2].component, "no_repeat_ngram": 3}
    standard = read_settings(
        run, sweep_file("generation", "standard", option="--settings"), ("generation.max_length=7",)
    )
    assert len(standard) >= 20
    assert {setting.generation["max_length"] for setting in standard} == {7}
    assert {setting.generation["search"]["name"] for setting in standard} >= {
        "greedy",
        "beam",
        "diverse_beam",
        "sampling",
    }
    crossed = read_settings(run, Path("settings.yaml"), (), ("generation.min_length=1,2",))
    assert [setting.name for setting in crossed[:2]] == [
        "greedy, min_length=1",
        "greedy, min_length=2",
    ]
    assert crossed[2].chosen() == {"search": {"name": "beam", "width": 3}, "max_length": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {search: {name: bean}}", "bad.yaml:1: unknown search 'bean'; did you mean 'beam'"),
        (
            "a: {search: {name: beam, widht: 3}}",
            "bad.yaml:1: .*beam: unknown argument 'widht'; did you mean 'width'",
        ),
        (
            "a:\n  serach: {name: beam}",
            "bad.yaml:2: a: unknown key 'serach'; did you mean 'search'",
        ),
        ("a: {min_length: 9, max_length: 3}", "bad.yaml:1: .*min_length <= max_length"),
        ("a: greedy", "bad.yaml:1: a: must have keys of the section generation"),
        ("", "bad.yaml: has no setting"),
    ],
)
def test_invalid_settings(
    text: str, message: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        call(capsys, runs[0], "--settings", "bad.yaml")
    assert not Path(runs[0], "generation").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["{lstm}", "--settings", "nothing"],
            "--settings: unknown name 'nothing'; choose from standard",
        ),
        (
            ["{lstm}", "--vary", "generation.search.width=2"],
            "--vary width=2: .*unknown argument 'width'",
        ),
        (
            ["{lstm}", "--vary", "generation=bim5,greedy"],
            "--vary .*unknown generation 'bim5'; did you mean 'beam5'",
        ),
        (["{lstm}", "{lstm}/."], "listed twice"),
        (["generation=x"], "0 runs; give one or two run folders"),
        (
            ["{lstm}", "{other}", "--settings", "settings.yaml"],
            "has other validation examples than",
        ),
        (
            [
                "{lstm}",
                "data.corpus={name: jsonl}",
                "data.path=lines",
                "--settings",
                "settings.yaml",
            ],
            "validation",
        ),
        (["{lstm}", "--rule", "f3"], "unknown metric in --rule 'f3'"),
        (["{lstm}", "--output", "file"], "file: cannot be written .*; choose another --output"),
    ],
)
def test_invalid_command(
    arguments: list[str], message: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs[1], "other")
    recipe = Path("other", "recipe.yaml")
    recipe.write_text(
        recipe.read_text("utf-8").replace("first_turns: false", "first_turns: true"),
        encoding="utf-8",
    )
    Path("other", "manifest.json").unlink()
    Path("lines").mkdir()
    Path("file").touch()
    Path("lines", "train.jsonl").write_text(
        '{"turns": ["Hi !", "Hello ."]}\n' * 3, encoding="utf-8"
    )
    places = {"lstm": runs[0], "other": "other"}
    with pytest.raises(UserError, match=message):
        call(capsys, *(places.get(argument.strip("{}/."), argument) for argument in arguments))


def test_scores_that_are_not_numbers_are_one_line(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file, save_file

    weights = Path(runs[0], "model.safetensors")
    save_file({name: tensor * float("nan") for name, tensor in load_file(weights).items()}, weights)
    Path(runs[0], "manifest.json").unlink()
    with pytest.raises(UserError, match="the scores of the model are not numbers"):
        call(capsys, runs[0], "--settings", "settings.yaml", "--examples", "5")


def test_a_file_of_a_run_folder_runs_no_code(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(runs[0], "hostile"))
    configs = folder / "configs" / "generation"
    configs.mkdir(parents=True)
    (configs / "beam5.yaml").write_text(
        "search: {name: subprocess.Popen, args: [touch, executed]}", encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"imports 'subprocess\.Popen'; pass --trust"):
        call(capsys, str(folder), "--vary", "generation=beam5")
    assert not Path("executed").exists()


def test_two_processes_do_not_measure_one_run(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(runs[1], "generation").mkdir()
    with (
        lock(Path(runs[1], "generation", ".lock")),
        pytest.raises(UserError, match="another process measures"),
    ):
        call(capsys, *runs, "--settings", "settings.yaml", "--examples", "5")
    # nothing is measured before all locks are held
    assert not Path(runs[0], "generation/settings.jsonl").exists()


def test_name_of_several_lines_stays_a_comment(tmp_path: Path) -> None:
    generation, path = asdict(GenerationConfig()), tmp_path / "tuned.yaml"
    values = dict.fromkeys(("f1", "bleu_2", DIVERSITY, "entropy_2", "length_mean"), 1.0)
    setting = DecodingSetting("wide\nmin_length: 9", generation)
    write_selected(path, setting, values, parse_rule("f1", ["f1"]), values, met=True)
    assert read_yaml(path).values == {"search": generation["search"]}


def test_selected_reverse_model_has_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So ``generation=tuned`` works from any folder."""
    monkeypatch.chdir(tmp_path)
    generation = {
        **asdict(GenerationConfig()),
        "search": {"name": "mmi", "reverse": "back", "weight": 1.0},
    }
    values = dict.fromkeys(("f1", "bleu_2", DIVERSITY, "entropy_2", "length_mean"), 1.0)
    write_selected(
        Path("tuned.yaml"),
        DecodingSetting("mmi", generation),
        values,
        parse_rule("f1", ["f1"]),
        values,
        met=True,
    )
    search = {"name": "mmi", "reverse": str(tmp_path / "back"), "weight": 1.0}
    assert read_yaml(Path("tuned.yaml")).values == {"search": search}
