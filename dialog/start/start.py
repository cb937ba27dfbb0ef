"""From a file of chats to a trained run: the steps of ``dialog start``, without a terminal."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dialog.atomic import write_text
from dialog.build import build_corpus, build_model
from dialog.config.compose import Composed, compose
from dialog.config.schema import Recipe
from dialog.config.trust import FULL_TRUST
from dialog.data.corpora import CORPORA, Corpus
from dialog.errors import UserError
from dialog.escaping import one_line
from dialog.report.formats.numbers import counted, duration, magnitude
from dialog.report.terminal import truncate, wrapped
from dialog.start.formats.detection import detect
from dialog.start.formats.verdict import Detected
from dialog.start.outcome import held_out_replies, leak_sentence, quality_sentence
from dialog.start.pseudonyms import write_pseudonymous
from dialog.start.recipe_text import (
    check_free,
    check_texts,
    data_name,
    given_arguments,
    given_responder,
    of_the_data,
    recipe_values,
    recipe_yaml,
    with_overrides,
    with_sizes,
)
from dialog.start.responder import check_responder, clear_responder, listed, most_frequent
from dialog.start.sizes import MOST_TOKENS, Sizes, choose_sizes, choose_vocabulary, smaller
from dialog.start.survey import RULES, Survey, survey
from dialog.start.timing import EpochTime, check_limit, epoch_time

WIDTH = 96
SHOWN_TURNS = 6
"""Turns of a dialogue that is shown to check the columns."""

ALLOWED_EPOCHS = 8
"""Epochs that the time limit should allow; a smaller model is chosen until it does."""

CONTENDERS = ("small/lstm_bahdanau", "small/transformer")
"""Models of equal size for a comparison, whose runs end by epochs and patience: under a limit of
time, the load of the machine would decide.
"""

INSPECTED = 50_000
"""Dialogues up to which the data are inspected for leaks and damage; `inspect` takes all."""

Say = Callable[[str], None]
Confirm = Callable[[str], bool]


@dataclass(frozen=True)
class StartRequest:
    """A file of chats, and the settings of its recipe.

    Args:
        path: File or folder of chats.
        overrides: Settings of the recipe, `key=value`.
        minutes: Time limit of the training.
        name: Name of the recipe; by default that of the data.
        pseudonyms: Whether to train on a copy with pseudonyms.
    """

    path: Path
    overrides: Sequence[str] = ()
    minutes: float = 30.0
    name: str | None = None
    pseudonyms: bool = False

    @property
    def command(self) -> str:
        """The command, for the recipe's comment."""
        options = [f"--minutes={self.minutes:g}", *(["--pseudonyms"] * self.pseudonyms)]
        words = ["python", "-m", "dialog", "start", str(self.path), *self.overrides, *options]
        return one_line(shlex.join(words))


class Started(NamedTuple):
    """The recipe, the run, and the metrics of the test split."""

    recipe: Path
    run: Path
    metrics: dict[str, Any]


def start(request: StartRequest, say: Say, confirm: Confirm) -> Started:
    """Detect, check, size, train and measure; say each result.

    Args:
        request: File of chats and settings.
        say: Shows a line of text.
        confirm: Asks a question; False stops.

    Raises:
        UserError: before anything is written: the data cannot be used, or an answer was no.
    """
    if not request.minutes > 0:
        raise UserError(f"--minutes is {request.minutes:g}; give more than 0")
    check_overrides(request)
    name = data_name(Path(request.name)) if request.name else data_name(request.path)
    file = Path(f"{name}.yaml")
    detected = detect(request.path, given_arguments(request.overrides))
    check_free(file)
    check_texts(detected.component, request.path)
    corpus = read_corpus(detected.component, request.path)
    found, responder = surveyed(corpus, request)
    say_mapping(request.path, detected, found, say)
    found.check_readable(str(request.path))
    check_responder(responder, found.speakers, str(request.path))
    has_pauses = "gap_hours" in CORPORA.arguments(str(detected.component["name"]))
    found.check_learnable(str(request.path), has_pauses=has_pauses)
    say_counts(found, responder, say)
    if not confirm("Are dialogues, speakers and texts right?"):
        raise UserError(
            "stopped; name the columns, such as data.corpus.text=COLUMN, or the format, such as"
            " data.corpus.name=text (python -m dialog parts corpora lists all)"
        )
    say_inspection(corpus, found, responder, say)
    component: Mapping[str, Any] = detected.component
    path = request.path
    with ExitStack() as undo:
        if request.pseudonyms:
            path = Path(f"{name}.pseudonyms.jsonl")
            number, names = write_pseudonymous(corpus, path)
            undo.callback(path.unlink, missing_ok=True)
            component = {"name": "jsonl"}
            responder = None if responder is None else names[responder]
            say(
                f"Copy with pseudonyms: {path} ({counted(number, 'dialogue')}); only it is trained"
                " on."
            )
        vocabulary = choose_vocabulary(found.words)
        values = recipe_values(component, path, found, vocabulary, responder)
        composed, sizes, epoch = sized(values, found, request, name)
        say_plan(sizes, epoch, request.minutes, say)
        final = final_values(values, sizes, request)
        write_text(file, recipe_yaml(final, request.command, sizes.reasons))
        undo.pop_all()
    say(f"Recipe: {file}")
    say("")
    return Started(file, *trained(composed, say))


def check_overrides(request: StartRequest) -> None:
    """Check the settings of the recipe before the data are read; those of the corpus, which is not
    known yet, are left to it.

    Raises:
        UserError: with the setting.
    """
    from dialog.runs.check import check_recipe

    if overrides := [one for one in request.overrides if not of_the_data(one)]:
        values = with_sizes(
            recipe_values({"name": "jsonl"}, request.path, Survey(), choose_vocabulary(1), None),
            choose_sizes(1, 1),
            request.minutes,
        )
        with_overrides(values, overrides)
        check_recipe(composed_of(values, "data", overrides).recipe)


# ------------------------------------------------------------------ data


def read_corpus(component: Mapping[str, Any], path: Path) -> Corpus:
    """Build the corpus of a component."""
    values = recipe_values(component, path, Survey(), choose_vocabulary(1), None)
    return build_corpus(composed_of(values, "data").recipe)


def surveyed(corpus: Corpus, request: StartRequest) -> tuple[Survey, str | None]:
    """Count a corpus, and return the speaker whose replies are learned (None: all speakers): that
    of the command line, else the assistant, if the roles are clear and it says enough.
    """
    is_given, responder = given_responder(request.overrides)
    found = survey(corpus, responder)
    if is_given:
        return found, responder
    assistant = clear_responder(found.speakers)
    if assistant is not None:
        restricted = survey(corpus, assistant)
        if restricted.is_enough:
            return restricted, assistant
    return found, None


def composed_of(values: Mapping[str, Any], name: str, overrides: Sequence[str] = ()) -> Composed:
    """Compose a recipe that is not yet written."""
    with tempfile.TemporaryDirectory(prefix="dialog-") as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(recipe_yaml(values, "", ()), encoding="utf-8")
        return compose(str(file), overrides, trust=FULL_TRUST)


def say_mapping(path: Path, detected: Detected, found: Survey, say: Say) -> None:
    """Show format, columns and the first dialogues."""
    say(one_line(f"{path}: {detected.description}"))
    width = max(map(len, detected.columns), default=0)
    for role, column in detected.columns.items():
        say(one_line(f"  {role:<{width}}  {column}"))
    for dialogue in found.shown:
        say("")
        names = {turn.speaker for turn in dialogue.turns}
        speaker_width = min(20, max(len(one_line(name)) for name in names))
        for turn in dialogue.turns[:SHOWN_TURNS]:
            speaker = truncate(one_line(turn.speaker), speaker_width)
            text = shown_text(turn.text, WIDTH - speaker_width - 4)
            say(f"  {speaker:<{speaker_width}}  {text}")
        if len(dialogue.turns) > SHOWN_TURNS:
            say(f"  ... {len(dialogue.turns) - SHOWN_TURNS:,} more")
    say("")


def say_counts(found: Survey, responder: str | None, say: Say) -> None:
    """Show what is kept and dropped, and whose replies are learned."""
    counts = found.counts
    say(
        f"Kept: {counts['dialogues']:,} of {counted(counts['dialogues read'], 'dialogue')},"
        f" {counted(len(found.speakers), 'speaker')}. Replies: {found.replies['train']:,} to learn"
        f" from ({found.words:,} words), {found.replies['validation']:,} to check training,"
        f" {found.replies['test']:,} held out."
    )
    say(one_line(f"  {responder_sentence(found, responder)}"))
    if found.facts:
        say(
            f"  {counted(found.facts, 'system prompt')}: read before the messages that follow, not"
            " learned as replies"
        )
    for key, number in sorted(counts.items()):
        if key.startswith("dropped dialogues: ") and number:
            reason = key.partition(": ")[2]
            first = f" (first: {found.malformed[0]})" if reason == "malformed" else ""
            say(one_line(f"  dropped: {counted(number, 'dialogue')}, {reason}{first}"))
    if empty := counts["dropped turns: empty"]:
        say(f"  dropped: {counted(empty, 'message')} without text")
    if merged := counts["dropped turns: merged"]:
        say(f"  joined: {merged:,} messages with the one before, of the same speaker")
    if found.left_out:
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(found.left_out.items()))
        say(one_line(f"  left out, without a text: {kinds}"))
    say("")


def responder_sentence(found: Survey, responder: str | None) -> str:
    """Return whose replies are learned, and the names that change it."""
    names = f"data.responder={listed(most_frequent(found.speakers), ' | ')}"
    if responder is None:
        return f"the model learns the replies of all speakers; {names} restricts it to those of one"
    return f"the model learns the replies of {responder}; {names} | null changes it (null: all)"


def say_inspection(corpus: Corpus, found: Survey, responder: str | None, say: Say) -> None:
    """Show the findings that harm a model or its evaluation."""
    if found.counts["dialogues read"] > INSPECTED:
        return
    from dialog.inspection.inspect import inspect

    findings = inspect(corpus, None, rules=replace(RULES, responder=responder), quiet=True).findings
    # malformed records are shown before
    bad = [
        finding
        for name, finding in findings.items()
        if finding.severity == "bad" and name != "records"
    ]
    for finding in bad:
        say(wrapped(f"Note: {finding.title}: {finding.headline}.", WIDTH))
    if bad:
        say("")


# ------------------------------------------------------------------ sizes


def sized(
    values: Mapping[str, Any], found: Survey, request: StartRequest, name: str
) -> tuple[Composed, Sizes, EpochTime]:
    """Prepare the data, and choose the largest model of the rules of which enough epochs fit into
    the time limit.

    Raises:
        UserError: not even an epoch of the smallest fits.
    """
    from dialog.data.store.manifest import read_manifest
    from dialog.runs.check import check_recipe
    from dialog.runs.prepare import prepare_data

    first = composed_of(final_values(values, choose_sizes(found.words, 1), request), name)
    check_recipe(first.recipe)
    prepared = prepare_data(first.recipe)
    counts = read_manifest(prepared)["splits"]["train"]
    tokens = counts["source tokens"] + counts["target tokens"]
    sizes = choose_sizes(found.words, tokens)
    while True:
        composed = composed_of(final_values(values, sizes, request), name)
        epoch = epoch_time(composed.recipe, prepared)
        less = smaller(sizes.model)
        if less is None or ALLOWED_EPOCHS * epoch.seconds <= 60 * request.minutes:
            break
        sizes = choose_sizes(found.words, tokens, less)
    check_limit(epoch, request.minutes)
    return composed, sizes, epoch


def final_values(values: Mapping[str, Any], sizes: Sizes, request: StartRequest) -> dict[str, Any]:
    """Return the whole recipe; a copy with pseudonyms has its own format and speakers."""
    overrides = [one for one in request.overrides if not (request.pseudonyms and of_the_data(one))]
    return with_overrides(with_sizes(values, sizes, request.minutes), overrides)


def say_plan(sizes: Sizes, epoch: EpochTime, minutes: float, say: Say) -> None:
    """Show the model, and the time that its training takes."""
    say(
        f"Model: LSTM with attention, {magnitude(epoch.parameters)} parameters, vocabulary of"
        f" {sizes.vocabulary:,} word pieces"
    )
    longest = sizes.epochs * epoch.seconds
    say(
        f"Time: about {duration(epoch.seconds)} for each pass over the data, at most"
        f" {sizes.epochs} passes; ends after"
        f" {duration(min(longest, 60 * minutes))} at the latest, earlier if it no longer improves"
    )


# ------------------------------------------------------------------ run


def trained(composed: Composed, say: Say) -> tuple[Path, dict[str, Any]]:
    """Train and evaluate; show replies on held-out dialogues and how good they are."""
    from dialog.analysis.measured import RESPONSES
    from dialog.runs.evaluation.evaluate import evaluate
    from dialog.runs.load import load
    from dialog.runs.train import train
    from dialog.training.callbacks.stopping import Ending

    ending = Ending()
    result = train(composed, quiet=True, callbacks=[ending])
    reason = f"; {ending.reason}" if ending.reason else ""
    say(f"Trained: {result.steps:,} steps in {duration(result.seconds)}{reason}")
    say("Replying to the held-out messages, to measure the model ...")
    folder, metrics = evaluate(load(result.folder), "test", quiet=True)
    say("")
    say("Replies to dialogues that the model has not seen:")
    for reply in held_out_replies(folder / RESPONSES):
        say("")
        for line in reply_lines(reply.context, reply.response, reply.reference):
            say(line)
    say("")
    for sentence in filter(None, (quality_sentence(metrics), leak_sentence(metrics))):
        say(wrapped(sentence, WIDTH))
    return result.folder, metrics


def reply_lines(context: Sequence[str], response: str, reference: str) -> Iterator[str]:
    """Yield the lines of a held-out reply."""
    rows = [*(("", turn) for turn in context), ("model", response), ("real", reference)]
    for label, text in rows:
        yield f"  {label:<5}  {shown_text(text, WIDTH - 9)}".rstrip()


def shown_text(text: str, width: int) -> str:
    """Return a text on one line of at most `width` columns."""
    return truncate(one_line(" ".join(text.split())), width)


def next_commands(started: Started) -> Iterator[str]:
    """Yield commands that continue from a run."""
    run = shlex.quote(str(started.run))
    recipe = shlex.quote(str(started.recipe))
    standard = compose(str(started.recipe), [f"model={CONTENDERS[0]}"], trust=FULL_TRUST).recipe
    # the dropout that was chosen for the data, which the swapped groups would replace
    dropout = compose(str(started.recipe), trust=FULL_TRUST).recipe.model.dropout
    settings = f"model.dropout={dropout} trainer.max_time=null"
    for does, command in (
        ("talk to it", f"chat {run}"),
        ("web page", f"serve {run}"),
        ("all metrics", f"evaluate {run}"),
        ("check the data", f"inspect {recipe}"),
        ("copies of the data", "cache list"),
        ("compare models", f"compare {recipe} --vary model={','.join(CONTENDERS)} {settings}"),
    ):
        yield f"  {does:<18}  python -m dialog {command}"
    yield (
        f"  {'':<18}  (two standard models, {magnitude(parameters(standard))} parameters each, in"
        " place of yours)"
    )


def parameters(recipe: Recipe) -> int:
    """Return the number of parameters of a model, with the vocabulary that its recipe asks for."""
    import torch

    with torch.device("meta"):
        model = build_model(recipe.model, recipe.data.tokenizer.get("vocabulary", MOST_TOKENS))
    return sum(parameter.numel() for parameter in model.parameters())
