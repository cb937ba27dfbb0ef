"""Texts for benchmarks/training.py: dialog's prepared data, and the same ids as words for the
peers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dialog.config.compose import compose
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data

TARGETS = 1000
"""Target tokens per batch."""
FEW = 100
"""Examples of the validation split that some peers require."""
RECIPES = {"lstm": "dailydialog/lstm_bahdanau", "transformer": "dailydialog/transformer"}
DAILY = [
    *(
        "data.tokenizer={name: byte_bpe, vocabulary: 8000}",
        "data.context_turns=3",
        "data.first_turns=false",
    ),
    *("data.max_source=64", "data.max_target=32"),
]
ROWS = {2048: 8}
"""Examples per batch for sources of this length; other lengths use the default number."""
RESPONSE = 15
SMALL = [
    *("model.embedding_size=16", "model.encoder={name: lstm, size: 16}"),
    "model.decoder={name: lstm, size: 16, attention: {name: additive, size: 16}}",
]


class Texts(NamedTuple):
    """A recipe with the overrides that select its data, and the folder with the same text for the
    peers.
    """

    recipe: str
    overrides: list[str]
    folder: Path
    examples: int
    vocabulary: int
    rows: int
    small: Sequence[str] = ()


def daily(folder: Path, family: str, overrides: Sequence[str]) -> Texts:
    """Prepare DailyDialog."""
    return prepared(folder, RECIPES[family], [*DAILY, *overrides])


def tiny(folder: Path, family: str) -> Texts:
    """Prepare a few dialogues of the built-in corpus, with small networks."""
    recipe = {"lstm": "quickstart/lstm_bahdanau", "transformer": "quickstart/transformer"}[family]
    data = ["data.corpus.size=60", "data.tokenizer.vocabulary=400"]
    return prepared(folder, recipe, data, targets=100)._replace(small=SMALL)


def even(folder: Path, family: str, length: int) -> Texts:
    """Generate random words: sources of one length, responses of 15 tokens."""
    rows = ROWS.get(length, TARGETS // RESPONSE)
    corpus = folder / "corpus"
    generator = random.Random(length)
    corpus.mkdir(parents=True)
    words = [f"w{number}" for number in range(8000)]
    (corpus / "train.jsonl").write_text(
        "".join(
            _dialogue(generator.choices(words, k=length - 2), generator) for _ in range(12 * rows)
        )
    )
    for split in ("validation", "test"):
        (corpus / f"{split}.jsonl").write_text(_dialogue(words[: length - 2], generator))
    data = [
        *(
            "data.corpus={name: jsonl}",
            f"data.path={corpus}",
            "data.tokenizer={name: word, vocabulary: 8000}",
        ),
        *("data.context_turns=1", "data.first_turns=false", "data.max_turn_characters=100000"),
        *(f"data.max_source={length}", "data.max_target=32"),
    ]
    texts = prepared(folder, RECIPES[family], data)
    return texts._replace(
        rows=rows, overrides=[*data, f"data.batch_tokens={rows * (length + RESPONSE)}"]
    )


def _dialogue(context: Sequence[str], generator: random.Random) -> str:
    answer = [f"w{generator.randrange(8000)}" for _ in range(RESPONSE - 1)]
    return json.dumps({"turns": [" ".join(context), " ".join(answer)]}) + "\n"


def prepared(folder: Path, recipe: str, overrides: list[str], *, targets: int = TARGETS) -> Texts:
    """Prepare a recipe's data and write its training split as words; the peers add end tokens
    themselves.
    """
    store = Store(prepare_data(compose(recipe, overrides).recipe, quiet=False), "train")
    source_mean, target_mean = store.lengths.astype(float).mean(0).tolist()
    vocabulary = len(store.tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    for side, ids in (
        ("source", lambda row: store.source(row)[:-1]),
        ("target", lambda row: store.target(row)[1:-1]),
    ):
        texts = [" ".join(f"t{token}" for token in ids(row)) for row in range(len(store))]
        for name, some in (("train", texts), ("few", list(islice(texts, FEW)))):
            (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in some))
    names = [f"t{token}" for token in range(vocabulary)]
    (folder / "words").write_text("".join(f"{name}\n" for name in names))
    (folder / "dictionary").write_text("".join(f"{name} 1\n" for name in names))
    budget = f"data.batch_tokens={round(targets * (source_mean + target_mean) / target_mean)}"
    return Texts(
        recipe, [*overrides, budget], folder, len(store), vocabulary, round(targets / target_mean)
    )
