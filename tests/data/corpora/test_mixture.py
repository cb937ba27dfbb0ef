"""Mixtures of corpora, with weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialog.build import build_corpus
from dialog.config.compose import compose
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.mixture import Mixture
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed
from dialog.errors import UserError


def mixed(*components: dict[str, object]) -> Mixture:
    def member(component: dict[str, object]) -> BuiltinDialogues:
        assert component.pop("name") == "builtin"
        return BuiltinDialogues(**component)

    return Mixture(corpora=components, member=member)


def part(size: int, **more: object) -> dict[str, object]:
    return {"name": "builtin", "size": size, **more}


@pytest.mark.parametrize(
    ("weight", "least", "most"), [(1, 1, 1), (3, 3, 3), (0.5, 0, 1), (2.25, 2, 3)]
)
def test_a_weight_is_the_mean_number_of_copies_in_train(
    weight: float, least: int, most: int
) -> None:
    corpus = mixed(part(400, weight=weight), part(30, seed=5))
    dialogues = [entry for entry in corpus.dialogues("train") if isinstance(entry, Dialogue)]
    assert len({dialogue.id for dialogue in dialogues}) == len(dialogues)
    times = Counter(
        dialogue.id.partition("+")[0]
        for dialogue in dialogues
        if dialogue.id.startswith("0-builtin/")
    )
    assert set(times.values()) <= set(range(max(least, 1), most + 1))
    assert abs(sum(times.values()) / 400 - weight) < 0.1
    assert sum(dialogue.id.startswith("1-builtin/") for dialogue in dialogues) == 30
    assert dialogues == list(corpus.dialogues("train"))


def test_half_of_consecutive_ids_is_half() -> None:
    class Numbered:
        def dialogues(self, split: str) -> Iterator[Entry]:
            return (Dialogue(str(number), ()) for number in range(1, 2001))

        def fingerprint(self) -> dict[str, str]:
            return {}

    for name in ("builtin", "jsonl", "toy"):
        corpus = Mixture(
            corpora=[{"name": name, "weight": 0.5}], member=lambda component: Numbered()
        )
        # four standard deviations
        assert abs(sum(1 for _ in corpus.dialogues("train")) - 1000) < 4 * 22.4


@pytest.mark.parametrize("split", SPLITS[1:])
def test_validation_and_test_ignore_weights(split: str) -> None:
    corpus = mixed(part(100, weight=7), part(50, weight=0.1, seed=5))
    turns = [dialogue.turns for dialogue in corpus.dialogues(split)]
    assert turns == [
        dialogue.turns
        for size, seed in ((100, 0), (50, 5))
        for dialogue in BuiltinDialogues(size=size, seed=seed).dialogues(split)
    ]


def test_the_fingerprint_depends_on_members_and_weights() -> None:
    fingerprints = [json.dumps(mixed(*parts).fingerprint()) for parts in (
        [part(9), part(8)], [part(9, weight=2), part(8)], [part(9), part(7)], [part(8), part(9)],
    )]  # fmt: skip
    assert len(set(fingerprints)) == 4


def test_malformed_records_are_passed_on() -> None:
    class Broken:
        def dialogues(self, split: str) -> Iterator[Entry]:
            yield Malformed("f:1: broken")

        def fingerprint(self) -> dict[str, str]:
            return {}

    corpus = Mixture(corpora=[{"name": "x", "weight": 3}], member=lambda component: Broken())
    assert list(corpus.dialogues("train")) == [Malformed("f:1: broken")]


@pytest.mark.parametrize("weight", [0, -1, "two", None, float("inf"), float("nan")])
def test_a_weight_must_be_above_zero(weight: object) -> None:
    with pytest.raises(UserError, match=r"the weight of builtin is"):
        mixed(part(10, weight=weight))


def test_an_empty_mixture_is_rejected() -> None:
    with pytest.raises(UserError, match=r"give corpora"):
        mixed()


@pytest.mark.parametrize(
    "corpora", ["[{name: builtin}, jsonl]", "{name: builtin}", "builtin", "3", "null"]
)
def test_anything_but_a_list_of_corpora_is_rejected(corpora: str) -> None:
    recipe = compose(
        "quickstart/transformer", [f"data.corpus={{name: mixture, corpora: {corpora}}}"]
    ).recipe
    with pytest.raises(UserError, match=r"mixture: give corpora: \[") as caught:
        build_corpus(recipe)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "corpus",
    ["{name: mixture, corpora: [{name: builtin}, {name: jsonl, path: own}]}", "{name: builtin}"],
)
def test_a_path_that_no_corpus_reads_is_rejected(corpus: str) -> None:
    recipe = compose("quickstart/transformer", [f"data.corpus={corpus}", "data.path=mine"]).recipe
    with pytest.raises(
        UserError, match=r"^data\.corpus: (mixture|builtin) reads no folder; remove the path mine"
    ):
        build_corpus(recipe)
    inner = "data.corpus={name: mixture, corpora: [{name: builtin, path: mine}]}"
    with pytest.raises(
        UserError, match=r"^data\.corpus: builtin reads no folder; remove the path mine"
    ):
        build_corpus(compose("quickstart/transformer", [inner]).recipe)


def test_a_recipe_mixes_corpora_with_their_own_folders(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for split in SPLITS:
        (tmp_path / "own" / f"{split}.jsonl").write_text('{"id": "d", "turns": ["Hi", "Hello"]}\n')
    parts = f"[{{name: builtin, size: 20}}, {{name: jsonl, path: {tmp_path / 'own'}, weight: 2}}]"
    recipe = compose(
        "quickstart/transformer", [f"data.corpus={{name: mixture, corpora: {parts}}}"]
    ).recipe
    ids = [dialogue.id for dialogue in build_corpus(recipe).dialogues("train")]
    assert len(ids) == 22
    assert ids[-2:] == ["1-jsonl/d", "1-jsonl/d+1"]
    wrong = compose(
        "quickstart/transformer", ["data.corpus={name: mixture, corpora: [{name: builtn}]}"]
    ).recipe
    with pytest.raises(UserError, match=r"data\.corpus: .*'builtn'; did you mean 'builtin'"):
        build_corpus(wrong)
