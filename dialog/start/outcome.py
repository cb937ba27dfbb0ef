"""A first look at a trained model: replies on held-out dialogues, and whether they beat trivial
ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dialog.json_files import read_json_lines

SHOWN = 5
BASELINES = {"most_frequent": "the most frequent reply", "random": "a random reply"}


class HeldOutReply(NamedTuple):
    """A context of the test split, the reply of the model, and that of the dialogue."""

    context: list[str]
    response: str
    reference: str


def held_out_replies(responses: Path) -> list[HeldOutReply]:
    """Return some replies of an evaluation, of dialogues spread over the split.

    Of each dialogue, the turn in the middle is shown: the first ones are often greetings. A split
    of few dialogues shows more turns of each.
    """
    by_dialogue: dict[str, list[dict[str, Any]]] = {}
    for row in read_json_lines(responses):
        by_dialogue.setdefault(str(row["dialogue_id"]), []).append(row)
    middle = [rows[len(rows) // 2] for rows in by_dialogue.values()]
    every = [row for rows in by_dialogue.values() for row in rows]
    rows = middle if len(middle) >= SHOWN else every
    chosen = rows[:: max(1, len(rows) // SHOWN)][:SHOWN]
    return [HeldOutReply(row["context"], row["response"], row["reference"]) for row in chosen]


def quality_sentence(metrics: Mapping[str, Any]) -> str:
    """Return whether the replies share more words with the references than trivial ones do."""
    own = metrics["f1"]
    rows = metrics.get("baselines", {})
    scores = {name: rows[name]["f1"] for name in BASELINES if "f1" in rows.get(name, {})}
    head = f"F1, the words that a reply shares with the real one, is {own:.1f} of 100"
    if not scores:
        return f"{head} on {metrics['examples']:,} held-out replies."
    others = " and ".join(f"{scores[name]:.1f} for {BASELINES[name]}" for name in scores)
    worse = [BASELINES[name] for name, score in scores.items() if own <= score]
    verdict = (
        f"the model is not better than {' and '.join(worse)}: it has not learned to reply"
        if worse
        else "the model is better than both"
    )
    return f"{head} on {metrics['examples']:,} held-out replies, {others}: {verdict}."


def leak_sentence(metrics: Mapping[str, Any]) -> str:
    """Return the part of the test dialogues that share turns with training; empty if few do."""
    subsets = metrics.get("subsets", {})
    leaked = subsets.get("leaked", {}).get("examples", 0)
    if leaked <= 0.1 * metrics["examples"]:
        return ""
    share = leaked / metrics["examples"]
    return (
        f"{share:.0%} of these replies are from dialogues that share a pair of turns with"
        " training, so new conversations may fare worse."
    )
