"""Prepare the data of a recipe: its tokenizer and token stores."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dialog.build import build_job
from dialog.config.schema import Recipe
from dialog.paths import cache


def example_ids(recipe: Recipe, split: str, rows: Collection[int]) -> dict[int, str]:
    """The ids of examples of the prepared data, by their rows; the corpus is read again."""
    from dialog.data.preparation import example_ids as ids

    return ids.example_ids(build_job(recipe), split, rows)


def prepare_data(
    recipe: Recipe, *, quiet: bool = True, engine: str = "processes", workers: int = 1, merges: bool = False
) -> Path:
    """Tokenizer and token stores of a recipe's corpus: the folder that holds them, built or merged if need be."""
    from dialog.data.preparation.prepare import merge_shards, prepare
    from dialog.report.progress import ProgressBars

    job = build_job(recipe)
    with ProgressBars(quiet=quiet) as bars:
        if merges:
            return merge_shards(job, cache(), bars.show)
        return prepare(job, cache(), engine=engine, workers=workers, progress=bars.show)


def prepare_part(recipe: Recipe, index: int, count: int) -> Path:
    """One of so many shards of the prepared data; the folder where they gather."""
    from dialog.data.preparation.prepare import prepare_shard
    from dialog.report.progress import ProgressBars

    with ProgressBars() as bars:
        return prepare_shard(build_job(recipe), cache(), index, count, progress=bars.show)
