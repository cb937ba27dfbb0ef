"""SearchSettings of a chat: files, searches, arguments and constraints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.chat.search_settings import SearchSettings, parse_pairs
from dialog.chat.session import Session
from dialog.config.trust import FULL_TRUST
from dialog.errors import UserError


@pytest.fixture
def settings(session: Callable[..., Session]) -> SearchSettings:
    return session("lstm").settings[0].change({"max_length": 9})


def test_an_argument_selects_the_search_that_has_it(settings: SearchSettings) -> None:
    changed = settings.change({"top_p": 0.9, "generation.max_length": 3})
    assert changed.describe() == "sampling, top_p=0.9, max_length=3"
    assert settings.select("dialogue").change({"top_p": 0.9}).component["no_repeat_ngram"] == 3
    (candidates,) = settings.run.responder.respond([["Hello ."]], changed.component)
    assert len(candidates[0].token_scores) <= 4
    assert (
        settings.change({"search": "beam", "width": 2}).describe() == "beam, width=2, max_length=9"
    )
    assert settings.describe() == "greedy, max_length=9"


def test_constraints_of_the_user_stay_and_those_of_a_file_go(settings: SearchSettings) -> None:
    changed = settings.change({"max_length": 7}).select("dialogue")
    assert changed.describe().startswith(
        "beam, width=5, candidates=5, min_length=5, max_length=7, no_repeat_ngram=3"
    )
    assert changed.select("top_p").describe() == "sampling, top_p=0.9, max_length=7"
    assert changed.select("beam").change({"width": 2}).describe() == "beam, width=2, max_length=7"


def test_constraints_of_the_recipe_stay_with_any_search(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    from dialog.runs.load import load

    run = load(trained("lstm"), overrides=["generation.max_length=24", "generation.min_length=2"])
    settings = SearchSettings.of(run)
    names = ["greedy", "beam", "contrastive", "delayed_beam", "dialogue"]
    assert [settings.select(name).component["max_length"] for name in names] == [24] * len(names)
    file = tmp_path / "short.yaml"
    file.write_text("search: {name: beam}\nmax_length: 7\n", encoding="utf-8")
    assert settings.select(str(file)).describe() == "beam, min_length=2, max_length=7"
    file.write_text("max_length: 7\n", encoding="utf-8")
    assert (
        settings.select("beam").select(str(file)).describe() == "greedy, min_length=2, max_length=7"
    )


@pytest.mark.parametrize("normalisation", ["average", "gnmt"])
def test_the_penalty_of_the_longest_response_is_a_number(
    settings: SearchSettings, normalisation: str
) -> None:
    beam = settings.select("beam").change({"normalisation": normalisation})
    for penalty in (60, 1000):
        with pytest.raises(
            UserError, match=f"length_penalty is {penalty}, too large for 61 tokens"
        ):
            beam.change({"max_length": 60, "length_penalty": penalty})
    longest = beam.change({"max_length": 60, "length_penalty": 20})
    (candidates,) = longest.run.responder.respond([["Hello ."]], longest.component)
    assert candidates


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"max_length": 10**15}, "max_length is 1000000000000000; give at most 1048576"),
        (
            {"name": "sampling", "candidates": 10**14},
            "candidates is 100000000000000; give a number from 1 to 1048576",
        ),
        (
            {"name": "diverse_beam", "diversity": float("nan")},
            "diversity is nan; give a number from 0",
        ),
        ({"topp": 1}, "unknown setting 'topp'; did you mean 'top_p'?"),
        (
            {"width": 3},
            "greedy has no width; first choose a search: beam, diverse_beam, delayed_beam",
        ),
        ({"top_p": 2}, "top_p is 2; give a number above 0"),
        (
            {"max_length": "long"},
            "max_length: Value 'long' of type 'str' could not be converted to Integer",
        ),
        ({"min_length": 99}, "min_length is 99, max_length is "),
        ({"required": ["big cat"], "banned": ["Cat"]}, "'big cat' contains the banned word 'Cat'"),
        ({"banned": "cat"}, "banned: give a list, such as [one, two]"),
        ({"name": "os.getcwd"}, "unknown search 'os.getcwd'"),
        ({"name": "tuned"}, "unknown search 'tuned'; `python -m dialog tune-generation "),
    ],
)
def test_wrong_settings_are_one_line(
    settings: SearchSettings, pairs: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as error:
        settings.change(pairs)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_two_runs_change_together_or_not_at_all(session: Callable[..., Session]) -> None:
    chat = session("lstm", "transformer")
    before = [settings.describe() for settings in chat.settings]
    with pytest.raises(UserError):
        chat.change(
            lambda settings: settings.change({"top_p": 0.5 if settings is chat.settings[0] else 5})
        )
    assert [settings.describe() for settings in chat.settings] == before


@pytest.mark.parametrize(
    ("name", "count", "search"),
    [
        ("greedy", 3, "beam, width=5, candidates=3"),
        ("greedy", 8, "beam, width=8, candidates=8"),
        ("beam", 2, "beam, width=5, candidates=2"),
        ("diverse_beam", 7, "diverse_beam, width=9, groups=3, diversity=0.5, candidates=7"),
        ("top_p", 4, "sampling, top_p=0.9, candidates=4"),
        ("best_of_16", 4, "sampling, top_p=0.95, candidates=16"),
        ("contrastive", 2, "beam, width=5, candidates=2"),
    ],
)
def test_n_best_widens_the_search(
    settings: SearchSettings, name: str, count: int, search: str
) -> None:
    wide = settings.select(name).n_best(count)
    assert sorted(wide.describe().split(", ")) == sorted([*search.split(", "), "max_length=9"])
    (candidates,) = settings.run.responder.respond([["Hello ."]], wide.component)
    assert len(candidates) == wide.component["candidates"] >= count


def test_only_searches_that_draw_get_another_seed(settings: SearchSettings) -> None:
    assert settings.seeded(3) == settings.component
    sampling = settings.select("sampling")
    assert [sampling.seeded(attempt).get("seed") for attempt in range(3)] == [None, 2, 3]
    assert sampling.change({"seed": 40}).seeded(1)["seed"] == 41
    within = settings.change(
        {"search": {"name": "anti_lm", "search": {"name": "sampling", "candidates": 2}}}
    )
    assert not within.repeatable
    assert within.seeded(2)["search"] == {"name": "sampling", "candidates": 2, "seed": 3}


def test_a_search_can_be_given_as_on_the_command_line(settings: SearchSettings) -> None:
    changed = settings.change({"search": {"top_p": 0.8, "name": "sampling"}})
    assert changed.describe() == "sampling, top_p=0.8, max_length=9"
    inner = settings.select("anti_lm").change(
        {"search": {"name": "beam", "width": 3, "candidates": 3}}
    )
    assert inner.search["search"] == {"name": "beam", "width": 3, "candidates": 3}
    with pytest.raises(UserError, match="unknown search 'smapling'"):
        settings.change({"search": {"name": "smapling"}})


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("top_p=0.9 max_length=20", {"top_p": 0.9, "max_length": 20}),
        ("prefix=I am  banned=[a, b]", {"prefix": "I am", "banned": ["a", "b"]}),
        ("width = 3", {"width": 3}),
    ],
)
def test_pairs_are_parsed(text: str, pairs: dict[str, Any]) -> None:
    assert parse_pairs(text) == pairs


@pytest.mark.parametrize("text", ["", "width", "wide width=3", "=3", "banned=[a"])
def test_pairs_that_are_none(text: str) -> None:
    with pytest.raises(UserError):
        parse_pairs(text)


def test_a_file_of_a_run_folder_runs_no_code(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    from dialog.runs.load import load

    folder = Path(shutil.copytree(trained("lstm"), tmp_path / "run"))
    configs = folder / "configs" / "generation"
    configs.mkdir(parents=True)
    text = f"search: {{name: subprocess.Popen, args: [touch, {tmp_path / 'executed'}]}}"
    for name in ("tuned", "greedy"):
        (configs / f"{name}.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(
            UserError, match=rf"{name}\.yaml: imports 'subprocess\.Popen'; pass --trust"
        ):
            SearchSettings.of(load(folder)).select(name)
    (configs / "tuned.yaml").write_text("search: {name: os.getcwd}", encoding="utf-8")
    assert SearchSettings.of(load(folder), trust=FULL_TRUST).select("tuned").search == {
        "name": "os.getcwd"
    }
    assert not (tmp_path / "executed").exists()
