"""Whole dialogues for a study: each contender talks with itself, from a turn of the test set on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.comparison.preference.pairs import Responses, dialogue_of, read_contenders
from dialog.config.trust import Trust
from dialog.errors import UserError
from dialog.report.formats.results import Results

if TYPE_CHECKING:
    from dialog.runs.run import Run


def self_dialogues(
    folder: Path, results: Results, number: int, turns: int, trust: Trust
) -> dict[str, list[Responses]]:
    """Return dialogues of each run of each contender with itself, as responses of several turns.

    Args:
        folder: Folder of the comparison.
        results: Its results.json.
        number: Number of dialogues of each run.
        turns: Turns that follow the first one.
        trust: Which components of other packages may be imported.

    Raises:
        UserError: a contender was not trained here, so it cannot answer.
    """
    from dialog.runs.load import load

    if others := [model.name for model in results.models if not model.trained]:
        raise UserError(f"--turns: {others[0]} has no run that could answer; leave --turns out")
    responses = next(iter(read_contenders(folder, results).values()))[0]
    starts = beginnings(responses, turns)
    random.Random(0).shuffle(starts)
    dialogues: dict[str, list[Responses]] = {}
    for model in results.models:
        for entry in model.runs:
            if entry.evaluation:
                run = load(folder / entry.folder, trust=trust)
                dialogues.setdefault(model.name, []).append(talk(run, starts[:number], turns))
    return dialogues


def beginnings(rows: Responses, turns: int) -> list[dict[str, Any]]:
    """Return the first turn of each dialogue as context, and its next turns as reference."""
    dialogues: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        dialogues.setdefault(dialogue_of(row), []).append(row)
    starts = []
    for name, lines in dialogues.items():
        texts = [*lines[0]["context"][-1:], *(row["reference"] for row in lines)]
        if len(texts) > 1:
            reference = transcript(texts[1 : turns + 1])
            start = {"id": name, "dialogue_id": name, "context": texts[:1], "reference": reference}
            starts.append(start)
    return starts


def talk(run: Run, starts: Sequence[Mapping[str, Any]], turns: int) -> Responses:
    """Return the lines with the turns that a run generates for both speakers as response."""
    contexts = [list(start["context"]) for start in starts]
    for _ in range(turns):
        replies = run.respond_batch(contexts)
        contexts = [[*turns, reply.text] for turns, reply in zip(contexts, replies, strict=True)]
    return [
        {**start, "response": transcript(texts[1:])}
        for start, texts in zip(starts, contexts, strict=True)
    ]


def transcript(turns: Sequence[str]) -> str:
    """Return turns of two speakers as lines."""
    return "\n".join(f"– {turn}" for turn in turns)
