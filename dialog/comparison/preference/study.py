"""``--study OUT``: pairs of responses for people, as one offline page for each rater and as CSV.

The key, which names the contenders behind each pair, stays in the comparison:
studies/<id>.json, where the id is a hash of it.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from dialog.atomic import write_json, write_text
from dialog.comparison.preference.dialogues import self_dialogues
from dialog.comparison.preference.pairs import (
    ResponsePair,
    Responses,
    dialogue_of,
    draw_pairs,
    read_contenders,
    sources_of,
)
from dialog.comparison.preference.planning import OVERLAP, plan
from dialog.config.trust import NO_TRUST, Trust
from dialog.errors import UserError
from dialog.escaping import printable_json
from dialog.json_files import read_json
from dialog.report.formats.results import read_results
from dialog.report.page import joined, render_page

STUDIES = "studies"
ITEMS = 50
"""Pairs of responses of each two contenders."""
EVERY = 10
LEAST_CHECKS = 5
"""Pairs for each attention check, and least checks of a rater."""
SHORTEST = 4
"""Words of a reference in an attention check."""
FORMULA = ("=", "+", "-", "@", "\t")
"""First characters that a spreadsheet takes for a formula."""
EMPTY = "(empty)"
"""Text of an empty response, as on the pages."""
LABEL_STUDIO = """<View>
  <Text name="context" value="$context"/>
  <Header value="A"/> <Text name="a" value="$a"/>
  <Header value="B"/> <Text name="b" value="$b"/>
  <Choices name="choice" toName="context" choice="single" required="true">
    <Choice value="a"/> <Choice value="b"/> <Choice value="tie"/>
  </Choices>
</View>
"""


@dataclass(frozen=True)
class Question:
    """A pair as a rater sees it, with what the key says about it.

    Attributes:
        context: Turns of the context.
        responses: Responses shown as A and B.
        key: "pair" (contenders, pair of runs, example), "dialogue" and "first", the contender shown
            as A; or "check", the right choice.
    """

    context: tuple[str, ...]
    responses: tuple[str, str]
    key: Mapping[str, Any] = field(hash=False)


# ------------------------------------------------------------------ writing


def write_study(
    folder: Path,
    out: Path,
    *,
    raters: int,
    items: int | None = None,
    turns: int = 0,
    trust: Trust = NO_TRUST,
) -> str:
    """Write a study of a finished comparison; return what was written, and the power of it.

    Args:
        folder: Folder of the comparison, which keeps the key.
        out: New folder for pages and CSV.
        raters: Number of raters.
        items: Pairs of different responses of each two contenders, by default `ITEMS`.
        turns: Turns of whole dialogues, in which each contender talks with itself; 0: responses.
        trust: Which components of other packages may be imported, for dialogues.

    Raises:
        UserError: the comparison is not finished, the folder exists, or all responses are equal.
    """
    if out.exists():
        raise UserError(f"--study {out}: exists; give a new folder")
    results = read_results(folder)
    contenders = (
        self_dialogues(folder, results, items or ITEMS, turns, trust)
        if turns
        else read_contenders(folder, results)
    )
    drawn = draw_pairs(contenders, items or ITEMS, equal=False)
    if not any(drawn.values()):
        raise UserError(f"{folder}: all responses of the contenders are equal, so none is better")
    sheets = assign(drawn, next(iter(contenders.values()))[0], raters)
    names = [f"rater-{number}" for number in range(1, raters + 1)]
    questions = {
        f"{number}-{place:03}": question
        for number, sheet in enumerate(sheets, start=1)
        for place, question in enumerate(sheet, start=1)
    }
    content = {
        "sources": sources_of(results),
        "questions": {
            name: {**question.key, "outside": bool(turns)} for name, question in questions.items()
        },
    }
    study = study_id(content)
    (folder / STUDIES).mkdir(exist_ok=True)
    write_json(folder / STUDIES / f"{study}.json", content)
    out.mkdir(parents=True)
    noun = "continuation" if turns else "response"
    for number, name in enumerate(names, start=1):
        own = {key: one for key, one in questions.items() if key.startswith(f"{number}-")}
        write_text(out / f"{name}.html", page(study, name, own, noun))
    write_csv(out / "pairs.csv", study, questions)
    write_text(out / "label-studio.xml", LABEL_STUDIO)
    checks = sum("check" in one.key for one in questions.values()) // raters
    pairs = sum(map(len, drawn.values()))
    written = (
        f"{out}: pages for {raters} raters, {pairs} pairs of responses, each for"
        f" {min(raters, OVERLAP)} of them, and {checks} attention checks for each rater; the key is"
        f" {folder / STUDIES / study}.json"
    )
    return "\n".join([written, *plan(raters, max(map(len, drawn.values())))])


def study_id(content: Mapping[str, Any]) -> str:
    """Return the id of a study, a hash of its key."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def assign(
    drawn: Mapping[tuple[str, str], Sequence[ResponsePair]], rows: Responses, raters: int
) -> list[list[Question]]:
    """Return the questions of each rater in random order.

    Each pair has `OVERLAP` raters. A rater has as many pairs of each two contenders as the others,
    within one, sees each contender first in half of them, and has checks that are spread evenly.
    """
    chance = random.Random(0)
    overlap = min(raters, OVERLAP)
    numbered = [pair for one in drawn.values() for pair in enumerate(one)]
    sheets = []
    for rater in range(raters):
        pairs = [pair for place, pair in numbered if (rater - place) % raters < overlap]
        chance.shuffle(pairs)
        sheet = [question(pair, exchanged=place % 2 == 1) for place, pair in enumerate(pairs)]
        chance.shuffle(sheet)
        checks = attention_checks(rows, max(LEAST_CHECKS, len(sheet) // EVERY), chance)
        step = len(sheet) / max(len(checks), 1)
        for number, check in reversed(list(enumerate(checks))):
            sheet.insert(round((number + 0.5) * step), check)
        sheets.append(sheet)
    return sheets


def question(pair: ResponsePair, *, exchanged: bool) -> Question:
    """Return a pair as a question, the responses exchanged or not."""
    return Question(
        pair.context,
        pair.responses[::-1] if exchanged else pair.responses,
        {
            "pair": list(pair.key),
            "dialogue": pair.dialogue,
            "first": pair.b if exchanged else pair.a,
        },
    )


def attention_checks(rows: Responses, number: int, chance: random.Random) -> list[Question]:
    """Return pairs of the reference and that of another dialogue, in random order.

    None if the examples have no context or too few dialogues: nothing would tell them apart.
    """
    able = [row for row in rows if row["context"] and len(row["reference"].split()) >= SHORTEST]
    chance.shuffle(able)
    firsts = list({dialogue_of(row): row for row in able}.values())
    checks = []
    for row, other in islice(pairwise(firsts), number):
        right = chance.choice("ab")
        texts = (row["reference"], other["reference"])
        responses = texts if right == "a" else texts[::-1]
        checks.append(Question(tuple(row["context"]), responses, {"check": right}))
    return checks


def page(study: str, rater: str, questions: Mapping[str, Question], noun: str) -> str:
    """Return the page of a rater, who compares what the noun says.

    Texts are escaped and cannot add elements or addresses.
    """
    shown = [
        {"id": name, "context": one.context, "responses": one.responses}
        for name, one in questions.items()
    ]
    values = {"study": study, "rater": rater, "questions": printable_json(shown), "noun": noun}
    package = "dialog.comparison.preference"
    script = joined(package, ["study.js"])
    style = joined(package, ["study.css"])
    return render_page(package, "study.html.j2", values, script=script, style=style)


def write_csv(path: Path, study: str, questions: Mapping[str, Question]) -> None:
    """Write all questions as CSV, for Label Studio or a crowd platform."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["study", "id", "context", "a", "b"])
        for name, one in questions.items():
            turns = [f"Speaker {place % 2 + 1}: {turn}" for place, turn in enumerate(one.context)]
            responses = [text if text.strip() else EMPTY for text in one.responses]
            texts = printable_json(["\n".join(turns), *responses])
            writer.writerow([study, name, *map(spreadsheet_text, texts)])


def spreadsheet_text(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: with a space in front if need be."""
    return f" {text}" if text.startswith(FORMULA) else text


# ------------------------------------------------------------------ reading


def read_key(folder: Path, study: str) -> dict[str, Any]:
    """Read the key of a study.

    Raises:
        UserError: the comparison has no such study, or the file was changed.
    """
    path = folder / STUDIES / f"{study}.json"
    if not (study.isalnum() and path.is_file()):
        raise UserError(f"study {study[:40]!r} is none of {folder}")
    content = read_json(path, "sources", "questions")
    if study_id(content) != study:
        raise UserError(f"{path}: has changed since it was written; restore it from a copy")
    return content
