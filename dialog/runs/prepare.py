"""Prepare the data of a recipe: its tokenizer and its token stores, in the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.build import build_corpus, build_job, build_rules
from dialog.config.components import accepts
from dialog.config.schema import Recipe
from dialog.data.corpora import CORPORA
from dialog.paths import cache

if TYPE_CHECKING:
    from dialog.data.store.store import Store


def prepare_data(
    recipe: Recipe,
    *,
    quiet: bool = True,
    engine: str = "processes",
    workers: int = 1,
    merges: bool = False,
) -> Path:
    """Return the folder of the prepared data of a recipe that was checked; it is built if it is
    missing, or merged from shards with ``merges``.
    """
    from dialog.data.preparation.prepare import merge_shards, prepare
    from dialog.report.progress import ProgressBars

    job = build_job(recipe)
    with ProgressBars(quiet=quiet) as bars:
        if merges:
            return merge_shards(job, cache(), bars.show)
        return prepare(job, cache(), engine=engine, workers=workers, progress=bars.show)


def prepare_part(recipe: Recipe, index: int, count: int) -> Path:
    """Prepare shard ``index`` of ``count``; return the folder that collects the shards."""
    from dialog.data.preparation.prepare import prepare_shard
    from dialog.report.progress import ProgressBars

    with ProgressBars() as bars:
        return prepare_shard(build_job(recipe), cache(), index, count, progress=bars.show)


def example_ids(recipe: Recipe, split: str, rows: Collection[int]) -> dict[int, str]:
    """Map rows of a prepared split to the ids of their examples, by reading the corpus again."""
    from dialog.data.preparation import filtering

    return filtering.example_ids(build_job(recipe), split, rows)


def gold_alignments(
    recipe: Recipe, store: Store, rows: Collection[int]
) -> dict[int, dict[int, int]]:
    """Map rows of a prepared split to their gold alignments; empty unless the corpus is generated
    and has copies.
    """
    from dialog.data.examples import examples
    from dialog.data.gold_alignment import alignment

    if accepts(CORPORA, recipe.data.corpus, "path"):
        return {}
    wanted = set(rows)
    dialogues = build_corpus(recipe).dialogues(store.split)
    chosen = islice(
        examples(dialogues, build_rules(recipe), Counter()), 1 + max(wanted, default=-1)
    )
    return {
        row: alignment(store.tokenizer, example, max_source=store.max_source, layout=store.layout)
        for row, example in enumerate(chosen)
        if row in wanted and example.response.copies
    }
